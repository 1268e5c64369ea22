// Judges histories of a register with porcupine, an independent checker. Each line of the input is a JSON object:
// `initial`, and `ops` as lists of client, kind, two values, send and answer (-1 if there was none). Prints `true` or
// `false` for each line.
package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"math"
	"os"

	"github.com/anishathalye/porcupine"
)

const (
	read = iota
	write
	remove
	swap
	differs
)

type operation struct {
	kind, a, b int
	unknown    bool
}

type history struct {
	Initial int       `json:"initial"`
	Ops     [][]int64 `json:"ops"`
}

func model(initial int) porcupine.Model {
	return porcupine.Model{
		Init: func() interface{} { return initial },
		Step: func(state, input, output interface{}) (bool, interface{}) {
			of, value := input.(operation), state.(int)
			switch of.kind {
			case read:
				return value == of.a, value
			case write:
				return true, of.a
			case remove:
				return true, 0
			case swap:
				if value == of.a {
					return true, of.b
				}
				// Without an answer it may have found another value.
				return of.unknown, value
			default:
				return value != of.a, value
			}
		},
	}
}

func main() {
	lines := bufio.NewScanner(os.Stdin)
	lines.Buffer(nil, 1<<24)
	for lines.Scan() {
		var of history
		if err := json.Unmarshal(lines.Bytes(), &of); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(2)
		}
		var all []porcupine.Operation
		for _, op := range of.Ops {
			answered, unknown := op[5], op[5] < 0
			if unknown {
				answered = math.MaxInt64
			}
			all = append(all, porcupine.Operation{
				ClientId: int(op[0]),
				Input:    operation{int(op[1]), int(op[2]), int(op[3]), unknown},
				Call:     op[4],
				Return:   answered,
			})
		}
		fmt.Println(porcupine.CheckOperations(model(of.Initial), all))
	}
}
