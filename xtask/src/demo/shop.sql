-- What the demo's shop has besides pgbench's tables and the harness's schema: partitions by list and range,
-- foreign keys, an identity column, comments.
CREATE SCHEMA shop;
SET search_path = shop, public;

CREATE TABLE customer (
    id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    country text NOT NULL,
    name text NOT NULL,
    address jsonb NOT NULL,
    UNIQUE (id, country)
);
COMMENT ON TABLE customer IS 'who buys';
INSERT INTO customer (country, name, address)
SELECT (ARRAY['de', 'fr', 'jp', 'br'])[1 + n % 4], 'customer ' || n,
       jsonb_build_object('street', 'street ' || n % 500, 'number', n % 90)
FROM generate_series(1, 5000) n;

CREATE TABLE orders (
    id bigint NOT NULL,
    country text NOT NULL,
    ordered date NOT NULL,
    customer bigint NOT NULL,
    total numeric(12, 2) NOT NULL,
    PRIMARY KEY (country, ordered, id),
    FOREIGN KEY (customer, country) REFERENCES customer (id, country)
) PARTITION BY LIST (country);
CREATE TABLE orders_europe PARTITION OF orders FOR VALUES IN ('de', 'fr') PARTITION BY RANGE (ordered);
CREATE TABLE orders_europe_2024 PARTITION OF orders_europe FOR VALUES FROM ('2024-01-01') TO ('2025-01-01');
CREATE TABLE orders_europe_2025 PARTITION OF orders_europe FOR VALUES FROM ('2025-01-01') TO ('2026-01-01');
CREATE TABLE orders_world PARTITION OF orders DEFAULT;
CREATE INDEX ON orders (customer);
INSERT INTO orders
SELECT n, country, date '2024-01-01' + (n % 700), c.id, (n % 9000) / 7.0
FROM generate_series(1, 40000) n JOIN customer c ON c.id = 1 + n % 5000;

VACUUM (FREEZE, ANALYZE);
