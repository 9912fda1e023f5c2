import { removeFrom } from '@x/internal'
import { RunFailure } from '../agents/agent.ts'
import { GatewayError } from '../errors.ts'

/**
 * Executes runs that may outlive the request that began them. A run is stored before it is submitted: the engine gets its
 * id only. Direct calls (`Runs#call`) need no engine.
 */
export interface RunEngine {
  /**
   * Queues a stored run. Resolves when some process will execute it.
   *
   * @throws GatewayError `UNAVAILABLE`, `CLOSED`
   */
  submit(runId: string): Promise<void>
  /** Tells the process that executes a run to stop it. Does nothing if the run is not queued and not executed. */
  cancel(runId: string): Promise<void>
  /**
   * Executes runs in this process. `execute` must not reject: it stores how the run ended.
   *
   * @returns the function that ends it: aborts the attempts in this process, and waits for them
   */
  work(execute: ExecuteRun): Promise<() => Promise<void>>
}

export type ExecuteRun = (runId: string, attempt: RunAttempt) => Promise<void>

/** One execution of a run. Another process may execute the run again if this one dies or freezes. */
export interface RunAttempt {
  /** Counts from 1. Fences what an attempt writes: a later attempt has a greater number. */
  readonly number: number
  /** Aborts with a `RunFailure` when the run is cancelled, and when the process lost the run or stops. */
  readonly signal: AbortSignal
}

/** Executes runs in this process, at once. A run ends with the process. */
export class LocalEngine implements RunEngine {
  #execute: ExecuteRun | undefined
  readonly #attempts: LocalAttempt[] = []

  async submit(runId: string): Promise<void> {
    const execute = this.#execute
    if (execute === undefined) throw new GatewayError('CLOSED', 'The gateway executes no runs')
    void this.#run(new LocalAttempt(runId, execute))
  }

  async cancel(runId: string): Promise<void> {
    for (const attempt of this.#attempts) {
      if (attempt.runId === runId) attempt.stop('The run was cancelled.')
    }
  }

  async work(execute: ExecuteRun): Promise<() => Promise<void>> {
    this.#execute = execute
    return async () => {
      this.#execute = undefined
      const attempts = [...this.#attempts]
      for (const attempt of attempts) attempt.stop('The gateway is stopping.')
      await Promise.all(attempts.map(({ ended }) => ended))
    }
  }

  async #run(attempt: LocalAttempt): Promise<void> {
    this.#attempts.push(attempt)
    await attempt.ended
    removeFrom(this.#attempts, attempt)
  }
}

class LocalAttempt implements RunAttempt {
  readonly runId: string
  readonly number = 1
  readonly ended: Promise<void>
  readonly #controller = new AbortController()

  constructor(runId: string, execute: ExecuteRun) {
    this.runId = runId
    this.ended = execute(runId, this)
  }

  get signal(): AbortSignal {
    return this.#controller.signal
  }

  stop(text: string): void {
    this.#controller.abort(new RunFailure('cancelled', text))
  }
}
