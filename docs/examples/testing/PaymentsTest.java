// Run with: java PaymentsTest.java (Java 17 or later). The same works in JUnit with @BeforeAll and @AfterAll.
import java.net.URI;
import java.net.http.HttpClient;
import java.net.http.HttpRequest;
import java.net.http.HttpResponse;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.regex.Pattern;

class PaymentsTest {
    static String api;

    public static void main(String[] arguments) throws Exception {
        Path folder = Files.createTempDirectory("payments-");
        Path readyFile = folder.resolve("ready.json");
        Process demo = new ProcessBuilder("countersign", "demo", "--port", "0", "--ready-file", readyFile.toString())
                .redirectOutput(ProcessBuilder.Redirect.DISCARD)
                .redirectError(ProcessBuilder.Redirect.DISCARD)
                .start();
        try {
            while (!Files.exists(readyFile)) {
                if (!demo.isAlive()) throw new IllegalStateException("the demo did not start");
                Thread.sleep(50);
            }
            var proxyUrl = Pattern.compile("\"proxyUrl\": \"([^\"]+)\"").matcher(Files.readString(readyFile));
            if (!proxyUrl.find()) throw new IllegalStateException("no proxyUrl in " + readyFile);
            api = proxyUrl.group(1) + "/sandbox/gw/api";
            transferIsApproved();
            transferOfUnknownOutcomeCanBeApproved();
            System.out.println("2 tests passed");
        } finally {
            demo.destroy();
            demo.waitFor();
            Files.delete(folder);
        }
    }

    static void transferIsApproved() throws Exception {
        var response = post("/v4/transfer/1234", "client_orderid=order-1&amount=12.50&currency=EUR");
        assertEquals("answered", response.headers().firstValue("Countersign-Outcome").orElse(""));
        assertEquals("approved", finalStatus("order-1"));
    }

    static void transferOfUnknownOutcomeCanBeApproved() throws Exception {
        // The scenario of the simulator loses the response to this order.
        var response = post("/v4/transfer/1234", "client_orderid=lost-response&amount=1.00&currency=EUR");
        assertEquals("unknown", response.headers().firstValue("Countersign-Outcome").orElse(""));
        assertEquals("approved", finalStatus("lost-response"));
    }

    /** What the order is when it is no longer in progress. */
    static String finalStatus(String id) throws Exception {
        while (true) {
            String form = post("/v4/status/1234", "login=acme&client_orderid=" + id).body();
            var status = Pattern.compile("(?:^|&)status=(\\w+)").matcher(form);
            if (!status.find()) throw new AssertionError("no status in " + form);
            if (!status.group(1).equals("processing")) return status.group(1);
            Thread.sleep(200);
        }
    }

    static HttpResponse<String> post(String path, String form) throws Exception {
        var request = HttpRequest.newBuilder(URI.create(api + path))
                .header("Content-Type", "application/x-www-form-urlencoded")
                .POST(HttpRequest.BodyPublishers.ofString(form))
                .build();
        return HttpClient.newHttpClient().send(request, HttpResponse.BodyHandlers.ofString());
    }

    static void assertEquals(Object expected, Object actual) {
        if (!expected.equals(actual)) throw new AssertionError("expected " + expected + ", got " + actual);
    }
}
