// go-redis.
package main

import (
	"bufio"
	"context"
	"fmt"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"
)

func main() {
	mode, port := os.Args[1], os.Args[2]
	settings := map[string]string{}
	for _, setting := range os.Args[3:] {
		name, value, _ := strings.Cut(setting, "=")
		settings[name] = value
	}
	seconds, _ := strconv.ParseFloat(settings["timeout"], 64)
	timeout := time.Duration(seconds * float64(time.Second))
	retries := 0
	if settings["resend"] == "off" {
		retries = -1
	}
	protocol, _ := strconv.Atoi(settings["protocol"])

	address := "127.0.0.1:" + port
	var client redis.UniversalClient
	if mode == "cluster" {
		client = redis.NewClusterClient(&redis.ClusterOptions{
			Addrs: []string{address}, ReadTimeout: timeout, MaxRedirects: retries,
			ReadOnly: settings["replicas"] != "",
		})
	} else {
		client = redis.NewClient(&redis.Options{
			Addr: address, ReadTimeout: timeout, MaxRetries: retries, Protocol: protocol,
		})
	}
	fmt.Println("ready", redis.Version())
	lines := bufio.NewScanner(os.Stdin)
	for lines.Scan() {
		arguments := []interface{}{}
		for _, word := range strings.Split(lines.Text(), " ") {
			arguments = append(arguments, word)
		}
		reply, err := client.Do(context.Background(), arguments...).Result()
		if err != nil && err != redis.Nil {
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
	case string:
		return strconv.Quote(reply)
	case []interface{}:
		items := []string{}
		for _, item := range reply {
			items = append(items, show(item))
		}
		return "[" + strings.Join(items, " ") + "]"
	}
	return fmt.Sprint(reply)
}
