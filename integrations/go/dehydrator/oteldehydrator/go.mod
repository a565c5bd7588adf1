module dehydrator.invalid/source/integrations/go/dehydrator/oteldehydrator

go 1.23

require (
	dehydrator.invalid/source/integrations/go/dehydrator v0.1.0
	github.com/redis/go-redis/v9 v9.17.2
	go.opentelemetry.io/otel v1.31.0
	go.opentelemetry.io/otel/metric v1.31.0
	go.opentelemetry.io/otel/sdk v1.31.0
	go.opentelemetry.io/otel/sdk/metric v1.31.0
	go.opentelemetry.io/otel/trace v1.31.0
)

require (
	github.com/cespare/xxhash/v2 v2.3.0 // indirect
	github.com/dgryski/go-rendezvous v0.0.0-20200823014737-9f7001d12a5f // indirect
	github.com/go-logr/logr v1.4.2 // indirect
	github.com/go-logr/stdr v1.2.2 // indirect
	github.com/google/uuid v1.6.0 // indirect
	golang.org/x/sys v0.26.0 // indirect
)

replace dehydrator.invalid/source/integrations/go/dehydrator => ../
