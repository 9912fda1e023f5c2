/**
 * The other side of a `Worker`: does the tasks that come, one after the other, and lets the process end
 * when nobody is left to give any.
 */
export function answerTasks(perform: (task: unknown) => Promise<unknown>): void {
  process.on('message', (task: unknown) => {
    perform(task).then(
      (done) => process.send?.({ done: done ?? null }),
      (error: unknown) => process.send?.({ failed: error instanceof Error ? error.stack : error }),
    )
  })
  process.once('disconnect', () => process.exit())
}
