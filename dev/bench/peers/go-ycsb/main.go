// go-ycsb's core workload and its binding to Redis, without the databases that its own program links.
//
//	go-ycsb load|run name=value ...
package main

import (
	"context"
	"fmt"
	"os"
	"strings"

	"github.com/magiconair/properties"
	"github.com/pingcap/go-ycsb/pkg/client"
	"github.com/pingcap/go-ycsb/pkg/measurement"
	"github.com/pingcap/go-ycsb/pkg/prop"
	"github.com/pingcap/go-ycsb/pkg/ycsb"

	_ "github.com/pingcap/go-ycsb/db/redis"
	_ "github.com/pingcap/go-ycsb/pkg/workload"
)

func main() {
	if err := run(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func run() error {
	if len(os.Args) < 2 {
		return fmt.Errorf("usage: go-ycsb load|run name=value ...")
	}
	p := properties.NewProperties()
	for _, argument := range os.Args[2:] {
		name, value, _ := strings.Cut(argument, "=")
		if _, _, err := p.Set(name, value); err != nil {
			return err
		}
	}
	do := "true"
	if os.Args[1] == "load" {
		do = "false"
	}
	p.Set(prop.DoTransactions, do)
	measurement.InitMeasure(p)
	workload, err := ycsb.GetWorkloadCreator("core").Create(p)
	if err != nil {
		return err
	}
	db, err := ycsb.GetDBCreator("redis").Create(p)
	if err != nil {
		return err
	}
	db = client.DbWrapper{DB: db}
	client.NewClient(p, workload, db).Run(context.Background())
	measurement.Output()
	return db.Close()
}
