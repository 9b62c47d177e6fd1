SELECT product, sum(pieces) AS pieces, sum(pieces * cents) AS cents
FROM sales
GROUP BY product
ORDER BY product
