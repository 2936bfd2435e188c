#!/usr/bin/env bash
# Builds the Debian package from a program that is built already. Prints the path of the package.
#
# usage: deploy/debian/build.sh PROGRAM DIR [REVISION]
#   PROGRAM   target/release/ashlar; its version is the package's
#   REVISION  what follows the version, 1 if left out
# DEBFULLNAME and DEBEMAIL name the maintainer. The program has to be one of this machine: it writes its own manual
# pages and completions.
set -euo pipefail
here="$(cd "$(dirname "$0")" && pwd)"
root="$(cd "$here/../.." && pwd)"
usage="usage: build.sh PROGRAM DIR [REVISION]"
program="$(realpath "${1:?$usage}")"
out="${2:?$usage}"
revision="${3:-1}"

for tool in dpkg-deb dpkg-shlibdeps strip gzip; do
    command -v "$tool" > /dev/null || { echo "build.sh: $tool is missing: apt-get install dpkg-dev" >&2; exit 1; }
done
mkdir -p "$out"
out="$(realpath "$out")"
work="$(mktemp -d)"
trap 'rm -rf "$work"' EXIT
tree="$work/tree"

version="$("$program" --version | cut -d ' ' -f 2)-$revision"
architecture="$(dpkg --print-architecture)"
# The same sources make the same package.
SOURCE_DATE_EPOCH="${SOURCE_DATE_EPOCH:-$(git -C "$root" log -1 --format=%ct 2> /dev/null || stat -c %Y "$program")}"
export SOURCE_DATE_EPOCH
umask 022

put() { install -D -m 644 "$1" "$tree/$2"; }
install -D -m 755 "$program" "$tree/usr/bin/ashlar"
strip --strip-debug "$tree/usr/bin/ashlar"
put "$root/deploy/ashlar.service" usr/lib/systemd/system/ashlar.service
put "$root/deploy/ashlar-keeper.service" usr/lib/systemd/system/ashlar-keeper.service
put "$root/deploy/ashlar.toml" etc/ashlar/ashlar.toml
# A web address in it may be a secret.
chmod 640 "$tree/etc/ashlar/ashlar.toml"

mkdir -p "$tree/usr/share/man/man8"
"$program" man "$tree/usr/share/man/man8" > /dev/null
find "$tree/usr/share/man" -name '*.8' -exec gzip -9n {} +
completions() { mkdir -p "$tree/$(dirname "$2")" && "$program" completions "$1" > "$tree/$2"; }
completions bash usr/share/bash-completion/completions/ashlar
completions zsh usr/share/zsh/vendor-completions/_ashlar
completions fish usr/share/fish/vendor_completions.d/ashlar.fish

doc=usr/share/doc/ashlar
put "$here/copyright" "$doc/copyright"
put "$root/CHANGELOG.md" "$doc/changelog"
gzip -9n "$tree/$doc/changelog"
put "$root/deploy/prometheus/ashlar-alerts.yml" "$doc/examples/ashlar-alerts.yml"
put "$root/deploy/prometheus/ashlar.yml" "$doc/examples/prometheus.yml"
put "$root/deploy/grafana/ashlar.json" "$doc/examples/grafana.json"

# Which libraries the program needs, and from which version on.
mkdir -p "$work/debian"
printf 'Source: ashlar\n\nPackage: ashlar\nArchitecture: any\n' > "$work/debian/control"
depends="$(cd "$work" && dpkg-shlibdeps -O -e"$tree/usr/bin/ashlar" 2> "$work/shlibdeps.log" \
    | sed -n 's/^shlibs:Depends=//p')"
[ -n "$depends" ] || { cat "$work/shlibdeps.log" >&2; echo "build.sh: dpkg-shlibdeps names no library" >&2; exit 1; }

mkdir -p "$tree/DEBIAN"
echo /etc/ashlar/ashlar.toml > "$tree/DEBIAN/conffiles"
for script in postinst prerm postrm; do
    install -m 755 "$here/$script" "$tree/DEBIAN/$script"
done
sed -e "s|@VERSION@|$version|" -e "s|@ARCHITECTURE@|$architecture|" -e "s|@DEPENDS@|$depends|" \
    -e "s|@MAINTAINER@|${DEBFULLNAME:-Ashlar} <${DEBEMAIL:-root@localhost}>|" \
    -e "s|@SIZE@|$(du --apparent-size -sk "$tree" | cut -f 1)|" "$here/control" > "$tree/DEBIAN/control"
(cd "$tree" && find usr etc -type f -print0 | sort -z | xargs -0 md5sum > DEBIAN/md5sums)

package="$out/ashlar_${version}_$architecture.deb"
dpkg-deb --root-owner-group --build "$tree" "$package" > /dev/null
echo "$package"
