#compdef NAME
# Completion of NAME for zsh: source this after compinit, or keep it as _NAME in a directory of fpath.
FUNCTION() {
  local line text
  local -a found
  for line in "${(@f)$(${~words[1]} complete -- "${(@)words[2,CURRENT]}" 2>/dev/null)}"; do
    text=${line%%$'\t'*}
    case $text in
      '') ;;
      :files) compset -P '--*='; _files; return ;;
      :directories) compset -P '--*='; _files -/; return ;;
      *) found+=("${text//:/\\:}:${line#*$'\t'}") ;;
    esac
  done
  _describe -t values NAME found
}
if [[ ${funcstack[1]} == _NAME ]]; then FUNCTION "$@"; else compdef FUNCTION NAME; fi
