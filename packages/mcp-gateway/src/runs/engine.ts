/**
 * Executes runs in any of several processes, so that a run outlives the process that accepted it. The gateway stores a run
 * before it submits it: the engine gets its id only.
 */
export interface RunEngine {
  /**
   * Queues a stored run. Resolves when some process will execute it. Has no effect for a run that is queued or executed.
   *
   * @throws GatewayError `UNAVAILABLE`, `CLOSED`
   */
  submit(runId: string): Promise<void>
  /** Returns the number of runs that wait for a process, for metrics. @throws GatewayError `UNAVAILABLE`, `CLOSED` */
  countQueued?(): Promise<number>
  /** Tells the process that executes a run to stop it. Does nothing if no process does. */
  cancel(runId: string): Promise<void>
  /**
   * Executes runs in this process. `execute` must not reject: it stores how the run ended.
   *
   * @throws GatewayError `UNAVAILABLE` if the queue cannot be reached now: the gateway tries again. Any other error is final
   * @returns the function that ends it: takes no more runs, aborts the attempts in this process, and waits for their ends
   */
  work(execute: ExecuteRun): Promise<() => Promise<void>>
}

/** @returns `released`: the run has not ended, and another process should execute it */
export type ExecuteRun = (runId: string, attempt: RunAttempt) => Promise<'ended' | 'released'>

/** One execution of a run. Another process executes the run again if this one dies or freezes. */
export interface RunAttempt {
  /**
   * Aborts with one of these words: the run was `cancelled`, another process has it now (`lost`), or this process ends
   * (`stopping`). Then the run is handed to another process, or ends here soon.
   */
  readonly signal: AbortSignal
}

/** Executes runs in this process. */
export class LocalEngine implements RunEngine {
  readonly #running = new Set<string>()
  #execute: ExecuteRun | undefined
  #isStopping = false

  async submit(runId: string): Promise<void> {
    if (this.#running.has(runId)) return
    this.#running.add(runId)
    void this.#run(runId)
  }

  async countQueued(): Promise<number> {
    return 0
  }

  /** The gateway stops the runs of its own process. */
  async cancel(): Promise<void> {}

  async work(execute: ExecuteRun): Promise<() => Promise<void>> {
    this.#execute = execute
    return async () => {
      this.#isStopping = true
    }
  }

  async #run(runId: string): Promise<void> {
    const { signal } = new AbortController()
    let end: 'ended' | 'released' | undefined
    do end = await this.#execute?.(runId, { signal })
    while (end === 'released' && !this.#isStopping)
    this.#running.delete(runId)
  }
}
