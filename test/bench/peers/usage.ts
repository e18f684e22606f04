/**
 * Loaded into every process of the benchmark, Countersign's own too: tells the CPU time used so far, and ends
 * the process when the benchmark has gone.
 */
process.on('message', (question: { ask: string }) => {
  if (question.ask !== 'cpu') return;
  const { user, system } = process.cpuUsage();
  process.send?.((user + system) / 1e6);
});
process.once('disconnect', () => process.exit());
// The benchmark must not be what keeps Countersign from ending.
process.channel?.unref();
