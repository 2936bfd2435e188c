#!/usr/bin/env bash
# Builds the container image from the Debian package and runs the array in it. By hand or nightly, as root.
#
# usage: tests/package/container.sh [PROGRAM]
# Without a registry: the base is a fresh Debian tree. buildah does not need what podman needs of cgroups here.
set -euo pipefail
here="$(cd "$(dirname "$0")" && pwd)"
root="$(cd "$here/../.." && pwd)"
. "$here/tree.sh"

command -v buildah > /dev/null || fail "buildah is missing: apt-get install buildah"
program="$(program_under_test "$root" "${1:-}")"
work="$(mktemp -d -p "${TMPDIR:-/var/tmp}" ashlar-container-XXXXXX)"
clean() {
    [ -z "${container:-}" ] || image rm "$container" > /dev/null 2>&1 || true
    rm -rf "$work"
}
trap clean EXIT
# All of it in a folder of its own.
image() { buildah --root "$work/storage" --runroot "$work/run" --storage-driver vfs "$@"; }

package="$("$root/deploy/debian/build.sh" "$program" "$work/context" 1)"
mv "$package" "$work/context/ashlar.deb"
make_tree "$work/base.tar" ca-certificates
base="$(image from scratch)"
image add "$base" "$work/base.tar" / > /dev/null
image commit --quiet --rm "$base" localhost/ashlar-base > /dev/null
rm "$work/base.tar"
image build --isolation chroot --format docker --build-arg BASE=localhost/ashlar-base \
    --file "$root/deploy/container/Containerfile" --tag localhost/ashlar "$work/context" > "$work/build.log" 2>&1 \
    || { tail -30 "$work/build.log" >&2; fail "buildah build"; }
say "built from $(basename "$package")"

for expected in '"/usr/bin/ashlar"' '"serve"' '/var/lib/ashlar' SIGTERM; do
    image inspect --type image localhost/ashlar | grep -- "$expected" > /dev/null || fail "the image does not say $expected"
done
container="$(image from --pull-never localhost/ashlar)"
within() { image run --isolation chroot "$container" -- "$@"; }
[ "$(within ashlar --version)" = "$("$program" --version)" ] || fail "version"
within ashlar doctor --json | grep '"array"' > /dev/null || fail "doctor"
cat > "$work/story.sh" <<'STORY'
set -e
ashlar serve --config /etc/ashlar/ashlar.toml > /tmp/log 2>&1 &
array=$!
for _ in $(seq 200); do ashlar status > /dev/null 2>&1 && break; sleep 0.05; done
ashlar pool create main --drive /var/lib/ashlar/drive.img,size=256MiB
ashlar volume create db --size 64MiB
ashlar snapshot create noon db
ashlar clone create copy --from noon
ashlar pool check main
kill -TERM "$array"
wait "$array"
STORY
image copy --quiet "$container" "$work/story.sh" /tmp/story.sh > /dev/null
within sh /tmp/story.sh > "$work/story.log" 2>&1 || { cat "$work/story.log" >&2; fail "the array in the container"; }
say "the array serves in the container, and stops in order at SIGTERM"
say "all of it held"
