# Completion of NAME for fish: source this, or keep it as NAME.fish in ~/.config/fish/completions.
function FUNCTION
  set -l given (commandline -opc)
  set -l current (commandline -ct)
  set -l flag (string match -r -- '^--[^=]*=' "$current")
  set -l rest (string replace -r -- '^--[^=]*=' '' "$current")
  set -l name (string replace -r -- '^~(?=/)' $HOME $given[1])
  set -e given[1]
  for line in ($name complete -- $given "$current" 2>/dev/null)
    switch (string split -m 1 -f 1 \t -- $line)
      case :files
        for path in (__fish_complete_path "$rest"); echo "$flag$path"; end
      case :directories
        for path in (__fish_complete_directories "$rest"); echo "$flag$path"; end
      case '*'
        echo $line
    end
  end
end
complete -c NAME -f -a '(FUNCTION)'
