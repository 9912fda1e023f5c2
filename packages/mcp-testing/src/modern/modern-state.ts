import type { CallToolResult, ServerContext } from '@modelcontextprotocol/server'
import { RunLog } from './run-log.ts'

interface HeldCall {
  readonly context: ServerContext
  readonly release: (text: string) => void
}

/**
 * What outlives a request: the SDK makes a new server object for each of them. The state of the
 * tests, not of a session.
 */
export class ModernState {
  readonly runs: RunLog = new RunLog()
  /** Name in the annotation of `region`, without `Mcp-Param-`. */
  regionHeader = 'Region'
  /** Tools that were added since the start: `added_1` and so on. */
  addedTools = 0
  /** Text of `counter://value`. */
  counter = 0
  readonly #held = new Set<HeldCall>()

  /** Calls of `slow` that wait to be released. */
  get held(): number {
    return this.#held.size
  }

  release(answer: string): number {
    const calls = [...this.#held]
    for (const call of calls) call.release(answer)
    return calls.length
  }

  /** Reports progress of the held calls that asked for it. */
  async progress(progress: number, total: number | undefined): Promise<void> {
    await Promise.all(
      [...this.#held].map(({ context }) => reportProgress(context, { progress, total })),
    )
  }

  /** Waits for {@link release}, or for the client to leave. */
  hold(context: ServerContext): Promise<string> {
    return new Promise((resolve, reject) => {
      const held: HeldCall = {
        context,
        release: (answer) => {
          this.#held.delete(held)
          resolve(answer)
        },
      }
      this.#held.add(held)
      context.mcpReq.signal.addEventListener('abort', () => {
        this.#held.delete(held)
        reject(new Error('The client left'))
      })
    })
  }
}

/** Sends progress on the stream of the request, if its `_meta` has a token. */
export async function reportProgress(
  context: ServerContext,
  step: { readonly progress: number; readonly total?: number | undefined },
): Promise<void> {
  const { _meta: meta } = context.mcpReq
  const progressToken = meta?.progressToken
  if (progressToken === undefined) return
  await context.mcpReq.notify({
    method: 'notifications/progress',
    params: { progressToken, ...step },
  })
}

/** A result of one text. */
export function text(value: string): CallToolResult {
  return { content: [{ type: 'text', text: value }] }
}
