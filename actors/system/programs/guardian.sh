# Waits for the death of the server, whose end of the pipe on standard input nobody else holds, and becomes the walker:
#     guardian PYTHON WALKER HOME LEAF BASE RANGE
# Lines of input: `+ SESSION`, `- SESSION`, and `.` where the server ends by itself. HOME and LEAF are cgroups, or "".
# Nothing is forked: a fork bomb may have left nothing to fork with.
trap '' INT TERM HUP QUIT USR1 USR2 ALRM TSTP TTIN TTOU
python=$1 walker=$2 home=$3 leaf=$4 base=$5 range=$6 known=" "
[ -z "$home" ] || echo $$ >"$home/cgroup.procs"
while read -r op sid; do
    case $op in
    +) known="$known$sid " ;;
    -) case $known in *" $sid "*) known="${known%%" $sid "*} ${known#*" $sid "}" ;; esac ;;
    .) exit 0 ;;
    esac
done
[ -z "$leaf" ] || echo 1 >"$leaf/cgroup.kill"
for sid in $known; do kill -s STOP -- "-$sid"; done
trap 'for sid in $known; do kill -s KILL -- "-$sid"; done' EXIT  # where there is no Python, or none can be executed
[ ! -x "$python" ] || exec "$python" -I -S -c "$walker" "$base" "$range" "$leaf" $known
