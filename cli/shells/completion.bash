# Completion of NAME for bash: source this, or keep it as NAME in the directory bash-completion/completions.
FUNCTION() {
  local name="${1/#\~/$HOME}" current="${COMP_WORDS[COMP_CWORD]}" line
  [[ $current == '=' ]] && current=''
  COMPREPLY=()
  while IFS=$'\t' read -r line _; do
    case $line in
      :files | :directories)
        compopt -o filenames 2>/dev/null # bash 3 has none
        local kind=-f
        [[ $line == :directories ]] && kind=-d
        while IFS= read -r line; do COMPREPLY+=("$line"); done < <(compgen "$kind" -- "$current")
        ;;
      *) COMPREPLY+=("$line") ;;
    esac
  done < <("$name" complete -- "${COMP_WORDS[@]:1:COMP_CWORD}" 2>/dev/null)
}
complete -F FUNCTION NAME
