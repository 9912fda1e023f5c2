import type { Mutable } from '../mutable.ts'
import type { WaitForOptions } from '../recording.ts'
import { Recording } from '../recording.ts'

/** One time a tool was run: for a tool that asks for input, one round. */
export interface ToolRun {
  readonly tool: string
  readonly args: unknown
  /** `asked`: it ended with `input_required`. `cancelled`: its client left before the answer. */
  readonly state: 'running' | 'answered' | 'asked' | 'failed' | 'cancelled'
}

/** What a run needs to be followed. */
export interface TrackedRun<Result> {
  readonly tool: string
  readonly args: unknown
  /** Aborts when the client closes the stream of the answer. */
  readonly signal: AbortSignal
  readonly run: () => Result | Promise<Result>
}

/** Which tools ran, and what became of that. */
export class RunLog {
  readonly #recording = new Recording<Mutable<ToolRun>>('runs of tools')

  get runs(): readonly ToolRun[] {
    return this.#recording.entries
  }

  /** Rounds that only asked for input are none. */
  executions(tool: string): number {
    return this.runs.filter((run) => run.tool === tool && run.state !== 'asked').length
  }

  waitFor(matches: (run: ToolRun) => boolean, options?: WaitForOptions): Promise<ToolRun> {
    return this.#recording.waitFor(matches, options)
  }

  async track<Result extends object>({
    tool,
    args,
    signal,
    run: start,
  }: TrackedRun<Result>): Promise<Result> {
    const run: Mutable<ToolRun> = { tool, args, state: 'running' }
    const settle = (state: ToolRun['state']): void => {
      if (run.state !== 'running') return
      run.state = state
      this.#recording.changed(run)
    }
    signal.addEventListener('abort', () => settle('cancelled'), { once: true })
    this.#recording.add(run)
    try {
      const result = await start()
      const asked = 'resultType' in result && result.resultType === 'input_required'
      settle(asked ? 'asked' : 'answered')
      return result
    } catch (error) {
      settle('failed')
      throw error
    }
  }

  close(): void {
    this.#recording.close()
  }
}
