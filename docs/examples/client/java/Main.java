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
import java.util.List;
import java.util.Map;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.Executors;

/**
 * A shop that uses the client. Run with: javac -d classes Main.java, and
 * java -cp classes Main http://127.0.0.1:8080/sandbox/gw [PORT [SECONDS]]
 * Then: curl -d client_orderid=order-7 -d amount=12.50 -d currency=EUR http://127.0.0.1:PORT/pay
 *
 * <p>It has no key and no secret. A real one stores its orders in a database, and authenticates those who may pay and
 * refund.
 */
public class Main {
    private final Countersign countersign;
    private final Duration patience;
    private final HttpServer server;
    private final Map<String, Map<String, String>> orders = new ConcurrentHashMap<>();

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

    /** A real shop stores the order, and when it was sent, before this. */
    Response pay(Map<String, String> form) throws InterruptedException {
        var order = new HashMap<String, String>();
        for (String name : List.of("client_orderid", "amount", "currency"))
            order.put(name, form.getOrDefault(name, ""));
        orders.put(order.get("client_orderid"), Map.copyOf(order));
        form.put("server_callback_url", url() + "/callback");
        Response sent = countersign.send("v4/transfer", form);
        if (sent.next() != Next.QUERY) return sent;
        if (sent.orderId() != null) order.put("orderid", sent.orderId());
        orders.put(order.get("client_orderid"), Map.copyOf(order));
        // A real shop shows it to the payer. It does not prove that there is no order.
        String message = sent.field("error-message");
        if (!message.isEmpty()) System.out.println(printable(message));
        return countersign.untilDecided(order, patience);
    }

    /** Only its serial number tells the status of a refund from that of another one. A real shop stores it. */
    Response refund(Map<String, String> form) throws InterruptedException {
        form.put("server_callback_url", url() + "/callback");
        Response sent = countersign.send("v2/return", form);
        if (sent.next() != Next.QUERY) return sent;
        String serialNumber = sent.field("serial-number");
        if (serialNumber.isEmpty()) return sent.with(sent.row(), Next.ASK_SUPPORT);
        var order = new HashMap<>(form);
        order.keySet().retainAll(List.of("client_orderid", "orderid"));
        order.put("by-request-sn", serialNumber);
        return countersign.untilDecided(order, patience);
    }

    void callback(HttpExchange exchange, String received) throws IOException, InterruptedException {
        var found = countersign.callback(received, id -> orders.getOrDefault(id, Map.of()));
        if (found.found() == null) System.out.println(found.result());
        else report(found, found.found());
        exchange.sendResponseHeaders(found.respondWith(), -1);
        // The gateway does not repeat what it got 200 for. Of an order that is not the shop's, anyone can send one.
        boolean isUndecided = found.respondWith() == 200 && found.found().next() == Next.QUERY;
        if (isUndecided && orders.containsKey(found.order().getOrDefault("client_orderid", "")))
            report(found, countersign.untilDecided(found.order(), patience));
    }

    /** A real shop acts on it here, once: the same callback may come again. */
    private static void report(Countersign.Callback callback, Response found) {
        String id = printable(callback.order().getOrDefault("client_orderid", ""));
        System.out.printf("%s: %s is %s: %s%n", callback.result(), id, found.next(), found.row());
    }

    private static String printable(String text) {
        return '"' + text.replaceAll("[\\p{Cntrl}\"]", "?") + '"';
    }

    private void handle(HttpExchange exchange) throws IOException {
        try (exchange) {
            String body = new String(exchange.getRequestBody().readAllBytes(), StandardCharsets.UTF_8);
            String query = exchange.getRequestURI().getRawQuery();
            switch (exchange.getRequestMethod() + " " + exchange.getRequestURI().getPath()) {
                case "POST /pay" -> respond(exchange, pay(formOf(body)));
                case "POST /refund" -> respond(exchange, refund(formOf(body)));
                // The gateway sends a callback by GET, and a payer's browser a redirect by POST.
                case "GET /callback" -> callback(exchange, query == null ? "" : query);
                case "POST /callback" -> callback(exchange, body);
                default -> exchange.sendResponseHeaders(404, -1);
            }
        } catch (InterruptedException error) {
            throw new IOException(error);
        }
    }

    private static void respond(HttpExchange exchange, Response found) throws IOException {
        String about = found.orderId() != null ? found.orderId() : found.reason() != null ? found.reason() : "";
        String line = "%s: %s %s %s%n".formatted(found.next(), found.row(), about, found.message());
        byte[] text = line.getBytes(StandardCharsets.UTF_8);
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
