import com.sun.net.httpserver.HttpExchange;
import com.sun.net.httpserver.HttpServer;
import countersign.Countersign;
import countersign.Countersign.Next;
import countersign.Countersign.Response;
import java.io.IOException;
import java.net.InetSocketAddress;
import java.net.URLDecoder;
import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.HashMap;
import java.util.Map;
import java.util.concurrent.Executors;

/**
 * A shop that uses the client. Run with: javac -d classes Main.java, and
 * java -cp classes Main http://127.0.0.1:8080/sandbox/gw [PORT [SECONDS]]
 *
 * <p>It has no key and no secret. A real one stores its orders, and authenticates those who may pay and refund.
 */
public class Main {
    private final Countersign countersign;
    private final Duration patience;
    private final HttpServer server;

    Main(String url, int port, Duration patience) throws IOException {
        countersign = new Countersign(url, "acme", "1234", null); // those of the demo
        this.patience = patience;
        server = HttpServer.create(new InetSocketAddress("127.0.0.1", port), 0);
        server.setExecutor(Executors.newCachedThreadPool());
        server.createContext("/", this::handle);
    }

    String url() {
        return "http://127.0.0.1:" + server.getAddress().getPort();
    }

    /** A real shop stores the order ID, and when it was sent, before this. */
    Response pay(Map<String, String> form) throws InterruptedException {
        form.put("server_callback_url", url() + "/callback");
        Response sent = countersign.send("v4/transfer", form);
        if (sent.next() != Next.QUERY) return sent;
        return countersign.untilDecided(Map.of("client_orderid", form.get("client_orderid")), patience);
    }

    /** Only its serial number tells the status of a refund from that of the payment. */
    Response refund(Map<String, String> form) throws InterruptedException {
        Response sent = countersign.send("v2/return", form);
        if (sent.next() != Next.QUERY) return sent;
        String serialNumber = sent.field("serial-number");
        if (serialNumber.isEmpty()) return sent.with(sent.row(), Next.ASK_SUPPORT);
        var order = Map.of(
                "client_orderid", form.get("client_orderid"),
                "orderid", form.get("orderid"),
                "by-request-sn", serialNumber);
        return countersign.untilDecided(order, patience);
    }

    int callback(String received) throws InterruptedException {
        var found = countersign.callback(received);
        if (found.order() == null) {
            System.out.println(found.result());
        } else {
            String id = found.clientOrderId().replaceAll("[\\p{Cntrl}\"]", "?");
            Response order = found.order();
            System.out.printf("%s: \"%s\" is %s: %s%n", found.result(), id, order.next(), order.row());
        }
        return found.respondWith();
    }

    private void handle(HttpExchange exchange) throws IOException {
        try (exchange) {
            String body = new String(exchange.getRequestBody().readAllBytes(), StandardCharsets.UTF_8);
            String query = exchange.getRequestURI().getRawQuery();
            switch (exchange.getRequestMethod() + " " + exchange.getRequestURI().getPath()) {
                case "POST /pay" -> respond(exchange, pay(formOf(body)));
                case "POST /refund" -> respond(exchange, refund(formOf(body)));
                // The gateway sends a callback by GET, and a payer's browser a redirect by POST.
                case "GET /callback" -> exchange.sendResponseHeaders(callback(query == null ? "" : query), -1);
                case "POST /callback" -> exchange.sendResponseHeaders(callback(body), -1);
                default -> exchange.sendResponseHeaders(404, -1);
            }
        } catch (InterruptedException error) {
            throw new IOException(error);
        }
    }

    private static void respond(HttpExchange exchange, Response found) throws IOException {
        String about = found.orderId() != null ? found.orderId() : found.reason() != null ? found.reason() : "";
        byte[] text = "%s: %s %s%n".formatted(found.next(), found.row(), about).getBytes(StandardCharsets.UTF_8);
        exchange.sendResponseHeaders(200, text.length);
        exchange.getResponseBody().write(text);
    }

    private static Map<String, String> formOf(String body) {
        var form = new HashMap<String, String>();
        for (String pair : body.split("&")) {
            String[] parts = pair.split("=", 2);
            if (parts.length == 2) form.put(parts[0], URLDecoder.decode(parts[1], StandardCharsets.UTF_8));
        }
        return form;
    }

    public static void main(String[] arguments) throws IOException {
        int port = arguments.length > 1 ? Integer.parseInt(arguments[1]) : 0;
        int seconds = arguments.length > 2 ? Integer.parseInt(arguments[2]) : 900;
        var shop = new Main(arguments[0], port, Duration.ofSeconds(seconds));
        shop.server.start();
        System.out.println(shop.url());
    }
}
