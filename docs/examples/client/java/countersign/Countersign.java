package countersign;

import static countersign.Countersign.Next.*;

import java.math.BigDecimal;
import java.net.ConnectException;
import java.net.URI;
import java.net.URLDecoder;
import java.net.URLEncoder;
import java.net.http.HttpClient;
import java.net.http.HttpRequest;
import java.net.http.HttpResponse;
import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.Arrays;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.TimeoutException;
import java.util.function.Consumer;
import java.util.function.Function;
import java.util.function.Predicate;
import java.util.function.Supplier;
import java.util.regex.Pattern;
import java.util.stream.Collectors;

/** A client of Countersign to copy into a service (Java 17 or later). Why it does what it does: docs/payments.md. */
public final class Countersign {
    /** What to do now. */
    public enum Next {
        PAID,
        NOT_PAID,
        REFUNDED, // done, if it is your refund
        NOT_REFUNDED,
        QUERY, // find out what became of it: untilDecided()
        SEND_AGAIN, // it was not sent: send it again under the same order ID, after retryAfter
        FIX, // it was not processed: find the cause, then send it again under the same order ID
        ASK_SUPPORT; // a person decides, with the gateway's support: do not send it again before

        @Override
        public String toString() {
            return name().toLowerCase().replace('_', '-');
        }
    }

    private record Row(String name, Next next, Predicate<Response> applies) {}

    // The tables of docs/payments.md: the first row that applies says what to do now.
    /** Without a connection, and of Countersign: any other status of what was not sent is for the caller to correct. */
    private static final Set<Integer> TEMPORARY = Set.of(0, 408, 429, 500, 502, 503, 504);
    private static final List<Row> AFTER_SENDING = List.of(
            new Row("another order", QUERY, r -> r.orderMismatch != null),
            new Row("order ID reused", ASK_SUPPORT, r -> "order-id-reused".equals(r.reason)),
            new Row("not sent", SEND_AGAIN, r -> r.outcome.equals("not-sent") && TEMPORARY.contains(r.status)),
            new Row("not sent", FIX, r -> r.outcome.equals("not-sent")),
            new Row("rejected", FIX, r -> r.outcome.equals("answered") && Set.of(401, 403).contains(r.status)),
            new Row("may be processed", QUERY, r -> true));
    /** Of what else than a refund was done to a payment since. */
    private static final Set<String> LATER_STAGES = Set.of("cancel", "chargeback", "fraud", "dispute", "retrieval");
    private static final Set<String> DECLINED = Set.of("declined", "filtered");
    private static final List<Row> AFTER_QUERY = List.of(
            new Row("no response", QUERY, r -> r.status != 200 || r.field("status").isEmpty() || r.isRepeated()),
            new Row("later stage", ASK_SUPPORT, r -> LATER_STAGES.contains(r.field("transaction-type"))),
            new Row("refunded", REFUNDED, r -> r.isRefund() && r.field("status").equals("approved")),
            new Row("not refunded", NOT_REFUNDED, r -> r.isRefund() && DECLINED.contains(r.field("status"))),
            new Row("approved", PAID, r -> r.field("status").equals("approved")),
            new Row("declined", NOT_PAID, r -> DECLINED.contains(r.field("status"))),
            new Row("unknown", ASK_SUPPORT, r -> r.field("status").equals("unknown")),
            new Row("processing", QUERY, r -> !r.field("status").equals("error")),
            new Row("ambiguous", ASK_SUPPORT, r -> r.field("error-code").equals("124")),
            new Row("in error", ASK_SUPPORT, r -> r.orderId != null),
            new Row("not found", QUERY, r -> true));

    /**
     * A response of Countersign.
     *
     * @param reason of Countersign's own error (docs/errors.md), or why there is no response; may be null
     * @param message its detail, or the gateway's error-message; may be empty
     * @param requestId finds the log line; may be null
     * @param fields of the body, if it is a form; empty: it is repeated
     * @param orderMismatch if not null, it is about another order: take nothing from it
     * @param orderId of the gateway; may be null
     * @param row of the table that says what is next
     */
    public record Response(
            int status, String outcome, String reason, String message, String requestId, String orderMismatch,
            Duration retryAfter, Map<String, String> fields, String orderId, String body, String row, Next next) {
        /** One that came from nowhere. */
        public static Response none(String outcome, String reason) {
            return new Response(0, outcome, reason, "", null, null, Duration.ZERO, Map.of(), null, "", null, null);
        }

        public String field(String name) {
            return fields.getOrDefault(name, "");
        }

        public Response with(String row, Next next) {
            return with(row, next, message);
        }

        private Response with(String row, Next next, String message) {
            return new Response(
                    status, outcome, reason, message, requestId, orderMismatch, retryAfter, fields, orderId, body, row,
                    next);
        }

        private boolean isRepeated() {
            return "".equals(fields.get("transaction-type"));
        }

        private boolean isRefund() {
            return Set.of("reversal", "refund").contains(field("transaction-type"));
        }

        private Response by(List<Row> table) {
            Row found = table.stream().filter(row -> row.applies.test(this)).findFirst().orElseThrow();
            return with(found.name, found.next);
        }
    }

    /** What to do about a callback: respond to the gateway with a status. Order and found are null without a query. */
    public record Callback(String result, int respondWith, Map<String, String> order, Response found) {}

    /** How long to query the status of a payment. */
    public static final Duration PATIENCE = Duration.ofMinutes(15);
    /** Longer than Countersign waits for the gateway. */
    private static final int TIMEOUT_SECONDS = 35;
    // Follows no redirect, which would send a payment again.
    private final HttpClient http = HttpClient.newBuilder().version(HttpClient.Version.HTTP_1_1).build();
    private final String url, login, endpoint;
    private final Supplier<String> token;

    /**
     * @param url with environment and product, such as http://127.0.0.1:8080/sandbox/gw
     * @param token the bearer token of the service; may be null
     */
    public Countersign(String url, String login, String endpoint, Supplier<String> token) {
        this.url = url.replaceFirst("/$", "");
        this.login = login;
        this.endpoint = endpoint;
        this.token = token;
    }

    /**
     * Sends a payment once, such as v4/transfer, and says what is next. Store the order ID before. This never repeats it:
     * nothing here does.
     */
    public Response pay(String command, Map<String, String> form) throws InterruptedException {
        return post("/api/" + command + "/" + endpoint, encoded(form)).by(AFTER_SENDING);
    }

    /**
     * Sends a refund once, and queries what became of it. Only its serial number tells it from the payment and from other
     * refunds: a person decides about one without. Begin one when the last one of the order is decided.
     *
     * @param form has client_orderid, orderid, and for a part of the payment amount and currency
     * @param store stores the serial number, with which untilDecided goes on after a restart
     */
    public Response refund(Map<String, String> form, Consumer<String> store, Duration patience)
            throws InterruptedException {
        Response sent = pay("v2/return", form);
        if (sent.next != QUERY) return sent;
        String serialNumber = sent.field("serial-number");
        if (serialNumber.isEmpty()) return sent.with(sent.row, ASK_SUPPORT);
        store.accept(serialNumber);
        var order = new HashMap<>(form);
        order.keySet().retainAll(Set.of("client_orderid", "orderid"));
        order.put("by-request-sn", serialNumber);
        Response found = untilDecided(order, patience);
        // Why it was not made.
        return found.with(found.row, found.next, sent.message.isEmpty() ? found.message : sent.message);
    }

    /**
     * What became of an order, and what is next. It has client_orderid, amount and currency: it is paid only if the status
     * has the same. A refund has client_orderid, orderid and by-request-sn.
     */
    public Response status(Map<String, String> order) throws InterruptedException {
        boolean isRefund = order.containsKey("by-request-sn");
        var form = new HashMap<>(order);
        // With the orderid of a payment, a second one with its client_orderid would not be seen.
        form.keySet().retainAll(
                isRefund ? Set.of("client_orderid", "orderid", "by-request-sn") : Set.of("client_orderid"));
        form.put("login", login);
        Response found = post("/api/v4/status/" + endpoint, encoded(form)).by(AFTER_QUERY);
        // A refund has no status of a payment, or of another refund.
        String serialNumber = order.get("by-request-sn"), echo = found.fields.getOrDefault("by-request-sn", serialNumber);
        if (isRefund && (Set.of(PAID, NOT_PAID).contains(found.next) || !serialNumber.equals(echo)))
            return found.with("another stage", ASK_SUPPORT);
        return found.next == PAID && !hasAmount(order, found) ? found.with("another amount", ASK_SUPPORT) : found;
    }

    /** 12.5 is 12.50. */
    private static boolean hasAmount(Map<String, String> order, Response found) {
        String amount = order.getOrDefault("amount", ""), currency = order.getOrDefault("currency", "");
        try {
            boolean isAmount = new BigDecimal(amount).compareTo(new BigDecimal(found.field("amount"))) == 0;
            return isAmount && !currency.isEmpty() && currency.equals(found.field("currency"));
        } catch (NumberFormatException error) {
            return false;
        }
    }

    /** Queries the status until nothing is left to query. After the patience a person decides. */
    public Response untilDecided(Map<String, String> order, Duration patience) throws InterruptedException {
        long deadline = System.nanoTime() + patience.toNanos();
        for (long pause = 1_000; ; pause = Math.min(2 * pause, 60_000)) {
            Response found = status(order);
            long left = (deadline - System.nanoTime()) / 1_000_000;
            if (found.next != QUERY) return found;
            if (left <= 0) return found.with(found.row, ASK_SUPPORT);
            Thread.sleep(Math.min(Math.max(pause, found.retryAfter.toMillis()), left));
        }
    }

    /**
     * Verifies a callback or redirect, and then queries the status: it is a reason to query, never the status.
     *
     * @param received its query string or body, unchanged
     * @param stored returns what is known of a client_orderid
     */
    public Callback callback(String received, Function<String, Map<String, String>> stored)
            throws InterruptedException {
        Response said = post("/verify-callback/login/" + login, received);
        String result = said.status == 200 ? said.field("result") : said.status == 400 ? "invalid" : "unavailable";
        return switch (result) {
            case "verified", "key-missing" -> { // Without a key: ask the platform team for the one of the login.
                String id = fieldsOf(received).getOrDefault("client_orderid", "");
                var order = new HashMap<>(stored.apply(id));
                order.put("client_orderid", id);
                Response found = status(order);
                // So that the gateway repeats it.
                yield new Callback(result, found.row.equals("no response") ? 503 : 200, order, found);
            }
            case "not-verified" -> new Callback(result, 403, null, null);
            case "invalid" -> new Callback(result, 400, null, null);
            default -> new Callback("unavailable", 503, null, null);
        };
    }

    /** Posts a form. Without a response the outcome is {@code unknown}, without a connection {@code not-sent}. */
    public Response post(String path, String form) throws InterruptedException {
        var request = HttpRequest.newBuilder(URI.create(url + path))
                .header("Content-Type", "application/x-www-form-urlencoded")
                .POST(HttpRequest.BodyPublishers.ofString(form));
        if (token != null) request.header("Authorization", "Bearer " + token.get());
        var received = http.sendAsync(request.build(), HttpResponse.BodyHandlers.ofString());
        try {
            return read(received.get(TIMEOUT_SECONDS, TimeUnit.SECONDS));
        } catch (ExecutionException | TimeoutException error) {
            received.cancel(true);
            String outcome = error.getCause() instanceof ConnectException ? "not-sent" : "unknown";
            return Response.none(outcome, error.toString());
        }
    }

    private Response read(HttpResponse<String> received) {
        var headers = received.headers();
        String type = headers.firstValue("Content-Type").orElse(""), body = received.body();
        boolean isProblem = type.startsWith("application/problem+json");
        String mismatch = headers.firstValue("Countersign-Order-Mismatch").orElse(null);
        // The gateway sends forms. Of Countersign's own JSON few members matter.
        Map<String, String> fields =
                type.startsWith("application/json") ? Map.of("result", member("result", body))
                : isProblem || mismatch != null ? Map.of() : fieldsOf(body);
        String retryAfter = headers.firstValue("Retry-After").filter(text -> text.matches("\\d{1,6}")).orElse("0");
        String product = url.substring(url.lastIndexOf('/') + 1);
        return new Response(
                received.statusCode(),
                headers.firstValue("Countersign-Outcome").orElse("unknown"),
                isProblem ? member("reason", body) : null,
                isProblem ? member("detail", body) : fields.getOrDefault("error-message", ""),
                headers.firstValue("X-Request-Id").orElse(null),
                mismatch,
                Duration.ofSeconds(Long.parseLong(retryAfter)),
                fields,
                fields.get(product + "-order-id"), // the name begins with the product
                body, null, null);
    }

    /** Of a JSON object; empty if there is none. */
    private static String member(String name, String json) {
        var found = Pattern.compile("\"" + name + "\":\"((?:[^\"\\\\]|\\\\.)*+)\"").matcher(json);
        return found.find() ? found.group(1).replaceAll("\\\\(.)", "$1") : "";
    }

    private static String encoded(Map<String, String> form) {
        return form.entrySet().stream()
                .map(pair -> pair.getKey() + "=" + URLEncoder.encode(pair.getValue(), StandardCharsets.UTF_8))
                .collect(Collectors.joining("&"));
    }

    /** Of a form, in which a line feed may follow each value. None if it is no form. */
    private static Map<String, String> fieldsOf(String form) {
        try {
            return Arrays.stream(form.split("&"))
                    .map(pair -> pair.split("=", 2))
                    .filter(pair -> pair.length == 2 && !pair[1].isBlank())
                    .collect(Collectors.toMap(
                            pair -> pair[0],
                            pair -> URLDecoder.decode(pair[1].strip(), StandardCharsets.UTF_8),
                            (one, other) -> one.equals(other) ? one : ""));
        } catch (IllegalArgumentException error) {
            return Map.of();
        }
    }
}
