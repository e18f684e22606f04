import type { Prometheus } from '../observability/prometheus.ts';
import type { StatusRecorder } from '../observability/status/recorder.ts';

/** The same metrics; the status learns what it shows. */
export function withStatus(metrics: Prometheus, status: StatusRecorder): Prometheus {
  return {
    ...metrics,
    requestFinished(context) {
      metrics.requestFinished(context);
      status.requestFinished(context);
    },
    gatewayResponded(event) {
      metrics.gatewayResponded(event);
      status.gatewayResponded(event);
    },
    keySourceUp(up, cause) {
      metrics.keySourceUp(up, cause);
      status.keySourceUp(up, cause);
    },
    loginFailed(problem) {
      metrics.loginFailed(problem);
      status.loginFailed(problem);
    },
    tokenExpiryChanged(...expiry) {
      metrics.tokenExpiryChanged(...expiry);
      status.tokenExpiryChanged(...expiry);
    },
    certificateLoaded(certificate, validity) {
      metrics.certificateLoaded(certificate, validity);
      status.certificateLoaded(certificate, validity);
    },
    certificateRemoved(user) {
      metrics.certificateRemoved(user);
      status.certificateRemoved(user);
    },
    configLoaded(successful, at) {
      metrics.configLoaded(successful, at);
      status.configLoaded(successful, at);
    },
    reconfigure(names) {
      metrics.reconfigure(names);
      status.reconfigure(names);
    },
  };
}
