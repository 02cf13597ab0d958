#!/bin/sh
# install.sh FOLDER: CRIU, zstd and Python with a loader and libraries of their own, from the archive that this machine's apt uses.
#
# The machine's packages stay as they are. CRIU below 4.2 cannot save network sockets on a new kernel, and one below 4.1 nothing; a
# stable release may have no newer one. So a newer suite is read, with a state of apt's own in which nothing is installed.
set -eu
mkdir -p "$1"
folder=$(readlink -f "$1")
mirror=$(apt-get indextargets --format '$(SITE) $(CREATED_BY) $(COMPONENT)' 2> /dev/null |
  awk '$2 == "Packages" && $3 == "main" && $1 !~ /security/ { print $1; exit }')
test -n "$mirror" || { echo "apt knows no archive of Debian here: apt-get update" >&2; exit 1; }

fetch() { # SUITE
  apt=$folder/apt
  rm -rf "$apt" && mkdir -p "$apt/state/lists/partial" "$apt/cache/archives/partial"
  : > "$apt/state/status"
  printf 'deb [signed-by=/usr/share/keyrings/debian-archive-keyring.gpg] %s %s main\n' "$mirror" "$1" > "$apt/sources.list"
  set -- -q -q -o Dir::State="$apt/state" -o Dir::State::status="$apt/state/status" -o Dir::Cache="$apt/cache" \
    -o Dir::Etc::sourcelist="$apt/sources.list" -o Dir::Etc::sourceparts=/dev/null -o Dir::Etc::preferencesparts=/dev/null \
    -o APT::Install-Recommends=0 -o APT::Sandbox::User=root -o Acquire::Languages=none
  apt-get "$@" update && apt-get "$@" --yes --download-only install criu zstd python3 > /dev/null
}

fetch sid || fetch trixie
rm -rf "$folder/root" && mkdir "$folder/root"
for package in "$folder"/apt/cache/archives/*.deb; do dpkg -x "$package" "$folder/root"; done
rm -rf "$folder/apt" "$folder/root/usr/share"
cd "$folder"
ln -sfn "$(dirname "$(find root/usr/lib -name 'ld-linux*' | head -1)")" lib
ln -sfn "$(ls lib/ld-linux* | head -1)" loader
# In a container the loader must read nothing of its image: these names, of the same length, are in a folder that is mounted
# there read-only, and there is no such file.
sed -i 's#/etc/ld\.so\.preload#/steepest/criu/no.#g; s#/etc/ld\.so\.cache#/steepest/criu/c#g' "$(readlink -f loader)"
for program in usr/sbin/criu usr/bin/zstd; do
  printf '#!/bin/sh\nhere=$(dirname "$(readlink -f "$0")")\nexec "$here/loader" --library-path "$here/lib" "$here/root/%s" "$@"\n' \
    "$program" > "$(basename $program)"
  chmod 755 "$(basename $program)"
done
./criu --version
