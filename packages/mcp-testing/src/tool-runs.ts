import type { RpcCall } from './rpc-call.ts'
import { RpcFailure } from './rpc-call.ts'
import { isObject } from './rpc-message.ts'
import type { ToolResult } from './legacy-tools.ts'
import { legacyTools } from './legacy-tools.ts'

interface HeldCall {
  readonly call: RpcCall
  readonly release: (text: string) => void
}

/** Runs the tools, counts that, and keeps the slow ones until they are released. */
export class ToolRuns {
  readonly #executions = new Map<string, number>()
  readonly #cancellations = new Map<string, number>()
  readonly #held = new Set<HeldCall>()

  executions(toolName: string): number {
    return this.#executions.get(toolName) ?? 0
  }

  cancellations(toolName: string): number {
    return this.#cancellations.get(toolName) ?? 0
  }

  /** Calls that wait to be released. */
  get held(): number {
    return this.#held.size
  }

  run(call: RpcCall): ToolResult | Promise<ToolResult> {
    const tool = legacyTools.find(({ definition }) => definition.name === call.params['name'])
    if (tool === undefined) throw new RpcFailure(-32602, 'Unknown tool')
    const { name } = tool.definition
    this.#executions.set(name, this.executions(name) + 1)
    call.signal.addEventListener('abort', () => {
      this.#cancellations.set(name, this.cancellations(name) + 1)
    })
    const args = call.params['arguments']
    return tool.run(isObject(args) ? args : {}, {
      session: call.session,
      held: () => this.#hold(call),
    })
  }

  release(text: string): number {
    const calls = [...this.#held]
    for (const held of calls) held.release(text)
    return calls.length
  }

  /** Reports progress of the calls that are held and asked for it. */
  progress(progress: number, total: number | undefined): void {
    for (const { call } of this.#held) {
      const meta = call.params['_meta']
      const progressToken = isObject(meta) ? meta['progressToken'] : undefined
      if (progressToken === undefined) continue
      call.notify('notifications/progress', { progressToken, progress, total })
    }
  }

  /** Nobody waits for the held calls any more: they are never answered. */
  drop(): void {
    this.#held.clear()
  }

  #hold(call: RpcCall): Promise<string> {
    return new Promise((resolve, reject) => {
      const held: HeldCall = {
        call,
        release: (text) => {
          this.#held.delete(held)
          resolve(text)
        },
      }
      this.#held.add(held)
      call.signal.addEventListener('abort', () => {
        this.#held.delete(held)
        reject(new Error('Cancelled'))
      })
    })
  }
}
