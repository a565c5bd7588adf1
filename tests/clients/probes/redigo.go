// redigo, with one connection that is kept until it breaks.
package main

import (
	"bufio"
	"fmt"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/gomodule/redigo/redis"
)

func main() {
	port := os.Args[2]
	options := []redis.DialOption{}
	for _, setting := range os.Args[3:] {
		name, value, _ := strings.Cut(setting, "=")
		if name == "timeout" {
			seconds, _ := strconv.ParseFloat(value, 64)
			options = append(options, redis.DialReadTimeout(time.Duration(seconds*float64(time.Second))))
		}
	}
	dial := func() (redis.Conn, error) { return redis.Dial("tcp", "127.0.0.1:"+port, options...) }
	connection, err := dial()
	if err != nil {
		panic(err)
	}
	fmt.Println("ready")
	lines := bufio.NewScanner(os.Stdin)
	for lines.Scan() {
		words := strings.Split(lines.Text(), " ")
		arguments := []interface{}{}
		for _, word := range words[1:] {
			arguments = append(arguments, word)
		}
		if connection.Err() != nil {
			connection.Close()
			if connection, err = dial(); err != nil {
				panic(err)
			}
		}
		reply, err := connection.Do(words[0], arguments...)
		if err != nil {
			fmt.Println("error", err)
		} else {
			fmt.Println("ok", show(reply))
		}
	}
}

func show(reply interface{}) string {
	switch reply := reply.(type) {
	case nil:
		return "nil"
	case []byte:
		return strconv.Quote(string(reply))
	case []interface{}:
		items := []string{}
		for _, item := range reply {
			items = append(items, show(item))
		}
		return "[" + strings.Join(items, " ") + "]"
	}
	return fmt.Sprint(reply)
}
