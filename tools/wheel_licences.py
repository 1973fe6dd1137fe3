#!/usr/bin/env python3
"""Puts the licences of the libraries inside a portable wheel into it: the step behind `auditwheel repair`.

    python3 tools/wheel_licences.py WHEEL...      rewrites each in place

Which package of the system a library came from says dpkg (Debian) or rpm (manylinux's images); its licence is that package's
copyright file. A library whose licence is not found is an error: the wheel would break that licence.
"""
import base64
import csv
import glob
import hashlib
import io
import os
import pathlib
import re
import subprocess
import sys
import zipfile

# auditwheel puts a hash into the names: libdnnl-1a2b3c4d.so.3.0, libfmt-0123abcd.so.9.
HASHED = re.compile(r"-[0-9a-f]{8,}(?=\.so)")


def output_of(*words):
    done = subprocess.run(words, capture_output=True, text=True)
    return done.stdout if done.returncode == 0 else ""


def library_files():
    """Every library that the loader knows, by name."""
    found = {}
    for line in output_of("ldconfig", "-p").splitlines() or output_of("/sbin/ldconfig", "-p").splitlines():
        parts = line.split(" => ")
        if len(parts) == 2:
            found.setdefault(os.path.basename(parts[1]), os.path.realpath(parts[1]))
            found.setdefault(os.path.basename(os.path.realpath(parts[1])), os.path.realpath(parts[1]))
    return found


def package_of(path):
    """The package that a file belongs to. On systems whose /lib is a link to /usr/lib a file is listed under either."""
    for each in (path, path.removeprefix("/usr"), "/usr" + path):
        line = output_of("dpkg", "-S", each)
        if line:
            return line.split(":")[0]
        line = output_of("rpm", "-qf", "--qf", "%{NAME}", each)
        if line:
            return line
    return ""


def licence_files(package, library):
    """Those of a package; of what was built from source, those that were put beside it under the library's name."""
    copyright_file = pathlib.Path("/usr/share/doc", package, "copyright")
    if package and copyright_file.exists():
        return [copyright_file]
    folder = f"/usr/share/licenses/{package}" if package else f"/usr/local/share/licenses/{library}"
    return sorted(pathlib.Path(path) for path in glob.glob(f"{folder}/*"))


def licences_of(libraries):
    """Package (or library) -> its licence as text."""
    files = library_files()
    licences = {}
    for name in libraries:
        plain = HASHED.sub("", os.path.basename(name))
        library = plain.split(".so")[0]
        package = package_of(files[plain]) if plain in files else ""
        texts = [path.read_text(encoding="utf-8", errors="replace") for path in licence_files(package, library)]
        if not texts:
            sys.exit(f"error: no licence is found of {plain}" + (f" (package {package})" if package else ", which no package has"))
        licences[package or library] = "\n".join(texts)
    return licences


def record_line(name, data):
    digest = base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b"=").decode()
    return [name, f"sha256={digest}", str(len(data))]


def with_files(wheel, added):
    """Writes the wheel anew with these files, listed in its RECORD."""
    written = wheel.with_suffix(".new")
    with zipfile.ZipFile(wheel) as old, zipfile.ZipFile(written, "w", zipfile.ZIP_DEFLATED) as new:
        (record,) = [name for name in old.namelist() if name.endswith(".dist-info/RECORD")]
        rows = [row for row in csv.reader(io.StringIO(old.read(record).decode())) if row and row[0] not in added]
        for info in old.infolist():
            if info.filename != record and info.filename not in added:
                new.writestr(info, old.read(info), zipfile.ZIP_DEFLATED)
        for name, data in added.items():
            new.writestr(name, data)
            rows.insert(-1, record_line(name, data))
        text = io.StringIO()
        csv.writer(text, lineterminator="\n").writerows(rows)
        new.writestr(record, text.getvalue())
    os.replace(written, wheel)


def add_licences(wheel):
    with zipfile.ZipFile(wheel) as archive:
        names = archive.namelist()
        (metadata,) = [name for name in names if name.endswith(".dist-info/METADATA")]
        head, _, body = archive.read(metadata).decode().partition("\n\n")
    libraries = [name for name in names if name.split("/")[0].endswith(".libs") and ".so" in os.path.basename(name)]
    if not libraries:
        sys.exit(f"error: {wheel} has no libraries of others inside; auditwheel repair comes before")
    folder = os.path.dirname(metadata) + "/licenses/"
    licences = licences_of(libraries)
    added = {f"{folder}bundled/{package}.txt": text.encode() for package, text in sorted(licences.items())}
    listed = [f"License-File: bundled/{package}.txt" for package in sorted(licences)]
    head += "".join("\n" + line for line in listed if line not in head.splitlines())
    with_files(wheel, added | {metadata: f"{head}\n\n{body}".encode()})
    print(f"{wheel}: the licences of {len(licences)} packages, which {len(libraries)} libraries are of")


def main():
    if len(sys.argv) < 2 or sys.argv[1].startswith("-"):
        sys.exit(__doc__)
    for name in sys.argv[1:]:
        add_licences(pathlib.Path(name))


if __name__ == "__main__":
    main()
