SELECT shop, count(*) AS sales, sum(pieces * cents) AS cents
FROM sales
GROUP BY shop
ORDER BY shop
