// A client of Countersign. Run with: java Client.java http://127.0.0.1:8080/sandbox/gw ORDER_ID (Java 17 or later)
import java.io.IOException;
import java.net.URI;
import java.net.URLDecoder;
import java.net.URLEncoder;
import java.net.http.HttpClient;
import java.net.http.HttpRequest;
import java.net.http.HttpResponse;
import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.Map;
import java.util.regex.Pattern;
import java.util.stream.Collectors;

class Client {
    static final String LOGIN = "acme";
    static final HttpClient http = HttpClient.newHttpClient();
    static String base;

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
    static String orderStatus(String path, String id) throws InterruptedException {
        Response found = post(path, Map.of("login", LOGIN, "client_orderid", id));
        if (found.status() != 200) return "";
        for (String pair : found.body().split("&")) {
            if (pair.startsWith("status="))
                return URLDecoder.decode(pair.substring(7).strip(), StandardCharsets.UTF_8);
        }
        return "";
    }

    /** Sends a payment once, and finds out what became of it. */
    static String transfer(String id, String amount, String currency) throws InterruptedException {
        Response sent = post("/api/v4/transfer/1234",
                Map.of("client_orderid", id, "amount", amount, "currency", currency));
        if (sent.outcome().equals("not-sent")) {
            var reason = Pattern.compile("\"reason\":\"([^\"]*)\"").matcher(sent.body());
            return "not sent, may be sent again: " + (reason.find() ? reason.group(1) : "");
        }
        if (sent.outcome().equals("answered") && sent.status() < 500 && sent.status() != 200)
            return "rejected with " + sent.status();
        // Made, or perhaps made (unknown, or a 5xx of the gateway): the status decides. Never resubmit under a new ID.
        for (int attempt = 0; attempt < 5; attempt += 1) {
            String found = orderStatus("/api/v4/status/1234", id);
            if (!found.isEmpty() && !found.equals("error")) return found;
            Thread.sleep(500L << attempt);
        }
        return "unresolved: query the status again later";
    }

    public static void main(String[] arguments) throws Exception {
        base = arguments[0];
        String orderId = arguments.length > 1 ? arguments[1] : "order-1";
        System.out.println("manager-balance: " + post("/api/v2/get-balance/manager/" + LOGIN, Map.of()).status());
        System.out.println("order-status: " + orderStatus("/api/v4/status/1234", "invoice-1"));
        System.out.println("order-status-group: " + orderStatus("/api/v4/status/group/77", "invoice-1"));
        System.out.println("pan-eligibility-send: " + post("/api/v2/pan-eligibility/send/1234", Map.of()).status());
        System.out.println("transfer " + orderId + ": " + transfer(orderId, "12.50", "EUR"));
    }
}
