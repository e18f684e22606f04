// A client of Countersign. Run with: java Client.java http://127.0.0.1:8080/sandbox/gw ORDER_ID [SECONDS] (Java 17 or later)
import java.io.IOException;
import java.net.URI;
import java.net.URLDecoder;
import java.net.URLEncoder;
import java.net.http.HttpClient;
import java.net.http.HttpRequest;
import java.net.http.HttpResponse;
import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.Arrays;
import java.util.Map;
import java.util.Set;
import java.util.regex.Pattern;
import java.util.stream.Collectors;

class Client {
    // Those of the demo.
    static final String LOGIN = "acme", ENDPOINT = "1234", GROUP = "77";
    static final Set<String> FINAL = Set.of("approved", "declined", "filtered");
    static final Set<String> PERSON_DECIDES = Set.of("ambiguous", "in error", "unknown");
    static final HttpClient http = HttpClient.newHttpClient();
    static String base;
    /** The product of the environment. The gateway puts it before the names of some fields. */
    static String product;
    /** Until a person decides about an order that is not final: see docs/payments.md. */
    static Duration patience = Duration.ofSeconds(900);

    record Response(int status, String outcome, String body) {}

    /** Posts an unsigned form. A network error says nothing about the outcome, so it counts as unknown. */
    static Response post(String path, Map<String, String> form) throws InterruptedException {
        String body = form.entrySet().stream()
                .map(pair -> pair.getKey() + "=" + URLEncoder.encode(pair.getValue(), StandardCharsets.UTF_8))
                .collect(Collectors.joining("&"));
        var request = HttpRequest.newBuilder(URI.create(base + path))
                .timeout(Duration.ofSeconds(35))
                .header("Content-Type", "application/x-www-form-urlencoded") // and Authorization: Bearer <token>
                .POST(HttpRequest.BodyPublishers.ofString(body))
                .build();
        try {
            var response = http.send(request, HttpResponse.BodyHandlers.ofString());
            String outcome = response.headers().firstValue("Countersign-Outcome").orElse("unknown");
            return new Response(response.statusCode(), outcome, response.body());
        } catch (IOException error) {
            return new Response(0, "unknown", "");
        }
    }

    /** Without Accept: application/json, a status is a form with a line feed after each value. */
    static Map<String, String> fieldsOf(String body) {
        try {
            return Arrays.stream(body.split("&"))
                    .map(pair -> pair.split("=", 2))
                    .filter(pair -> pair.length == 2)
                    .collect(Collectors.toMap(
                            pair -> pair[0],
                            pair -> URLDecoder.decode(pair[1].strip(), StandardCharsets.UTF_8),
                            (first, second) -> first));
        } catch (IllegalArgumentException error) {
            return Map.of(); // The response of the gateway is not a form.
        }
    }

    /** A row of "What the status query says" in docs/payments.md. */
    static String orderStatus(String path, String id) throws InterruptedException {
        Response found = post(path, Map.of("login", LOGIN, "client_orderid", id));
        Map<String, String> fields = found.status() == 200 ? fieldsOf(found.body()) : Map.of();
        String status = fields.getOrDefault("status", "");
        if (status.isEmpty()) return "no response";
        if (FINAL.contains(status) || status.equals("unknown")) return status;
        if (!status.equals("error")) return "processing";
        if (fields.getOrDefault("error-code", "").equals("124")) return "ambiguous";
        return fields.containsKey(product + "-order-id") ? "in error" : "not found";
    }

    /** Queries the status until it is final, or a person has to decide. Never sends the payment again. */
    static String resolve(String id) throws InterruptedException {
        long deadline = System.nanoTime() + patience.toNanos();
        for (long pause = 1_000; ; pause = Math.min(2 * pause, 60_000)) {
            String found = orderStatus("/api/v4/status/" + ENDPOINT, id);
            if (FINAL.contains(found)) return found;
            long left = (deadline - System.nanoTime()) / 1_000_000;
            if (PERSON_DECIDES.contains(found) || left <= 0) return "a person decides: " + found;
            Thread.sleep(Math.min(pause, left));
        }
    }

    /** Sends a payment once, and finds out what happened to it. A service stores the order ID before it calls this. */
    static String transfer(String id, String amount, String currency) throws InterruptedException {
        Response sent = post("/api/v4/transfer/" + ENDPOINT,
                Map.of("client_orderid", id, "amount", amount, "currency", currency));
        // 422: another form was sent under this order ID before. What became of that one?
        if (sent.outcome().equals("not-sent") && sent.status() != 422) {
            var reason = Pattern.compile("\"reason\":\"([^\"]*)\"").matcher(sent.body());
            return "not sent, may be sent again under this order ID: " + (reason.find() ? reason.group(1) : "");
        }
        if (sent.outcome().equals("answered") && Set.of(401, 403).contains(sent.status()))
            return "rejected, may be sent again under this order ID once the cause is fixed";
        return resolve(id);
    }

    public static void main(String[] arguments) throws Exception {
        base = arguments[0].replaceFirst("/$", "");
        product = base.substring(base.lastIndexOf('/') + 1);
        String orderId = arguments.length > 1 ? arguments[1] : "order-1";
        if (arguments.length > 2) patience = Duration.ofMillis((long) (Double.parseDouble(arguments[2]) * 1000));
        System.out.println("manager-balance: " + post("/api/v2/get-balance/manager/" + LOGIN, Map.of()).status());
        System.out.println("order-status: " + orderStatus("/api/v4/status/" + ENDPOINT, "invoice-1"));
        System.out.println("order-status-group: " + orderStatus("/api/v4/status/group/" + GROUP, "invoice-1"));
        System.out.println("pan-eligibility-send: " + post("/api/v2/pan-eligibility/send/" + ENDPOINT, Map.of()).status());
        System.out.println("transfer " + orderId + ": " + transfer(orderId, "12.50", "EUR"));
    }
}
