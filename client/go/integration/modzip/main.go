// Command modzip writes the module of the client as a proxy serves it, and checks it by the rules that a proxy has.
//
// Its arguments are the version, the folder of the module and the file to write. The same files give the same bytes.
package main

import (
	"fmt"
	"io"
	"log"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/mod/module"
	"golang.org/x/mod/zip"
)

const path = "acker.example/acker"

func main() {
	log.SetFlags(0)
	if len(os.Args) != 4 {
		log.Fatal("modzip VERSION FOLDER FILE")
	}
	if err := write(module.Version{Path: path, Version: os.Args[1]}, os.Args[2], os.Args[3]); err != nil {
		log.Fatalf("the module in %s could not be written: %v", os.Args[2], err)
	}
}

func write(version module.Version, folder, name string) error {
	checked, err := zip.CheckDir(folder)
	if err != nil {
		return err
	}
	out, err := os.Create(name)
	if err != nil {
		return err
	}
	defer out.Close()
	files, err := sources(checked.Valid, folder)
	if err != nil {
		return err
	}
	if err := zip.Create(out, version, files); err != nil {
		return err
	}
	if err := out.Close(); err != nil {
		return err
	}
	return check(version, name)
}

// check reads what was written as a proxy does that takes it in.
func check(version module.Version, name string) error {
	checked, err := zip.CheckZip(version, name)
	if err != nil {
		return err
	}
	if err := checked.Err(); err != nil {
		return err
	}
	if len(checked.Omitted) > 0 {
		return fmt.Errorf("%v are left out", checked.Omitted)
	}
	return nil
}

// sources returns the files of the module, without what was built beside them.
func sources(paths []string, folder string) ([]zip.File, error) {
	var files []zip.File
	for _, each := range paths {
		relative, err := filepath.Rel(folder, each)
		if err != nil {
			return nil, err
		}
		if name := filepath.ToSlash(relative); !strings.HasPrefix(name, "build/") {
			files = append(files, file{name: name, folder: folder})
		}
	}
	return files, nil
}

type file struct{ name, folder string }

func (f file) Path() string { return f.name }

func (f file) Lstat() (os.FileInfo, error) { return os.Lstat(filepath.Join(f.folder, f.name)) }

func (f file) Open() (io.ReadCloser, error) { return os.Open(filepath.Join(f.folder, f.name)) }
