# Types `storebench hist` and a tab into a zsh, and ends with 0 once the line says `storebench history`.
# The argument is a folder of completions besides those of the system.
zmodload zsh/zpty
zpty shell zsh -f -i
zpty -w shell "fpath=(${1:-} \$fpath); autoload -Uz compinit; compinit -u"
zpty -w -n shell $'storebench hist\t'
said=
for i in {1..600}; do
    while zpty -r -t shell more; do said+=$more; done
    [[ $said == *"storebench history"* ]] && exit 0
    sleep 0.05
done
print -r -- "$said"
exit 1
