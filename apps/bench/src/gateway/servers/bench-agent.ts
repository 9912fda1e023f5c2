import type { AgentCall, AgentListener, AgentSource, AgentUpdate, Skill } from '@x/mcp-gateway'
import { echoOf } from '../protocol.ts'
import { nowUs } from '../now-us.ts'

/** Between two agents that join. */
const JOIN_MS = 5

/** An agent of this process that costs nothing: what is measured is the gateway. */
export class BenchAgent implements AgentSource {
  readonly name = 'bench'
  readonly isLocal = true
  /** Runs that have not ended. */
  active = 0
  /** When each run that waited was told to stop, by the shared clock, since it was last asked. */
  #stoppedAt: number[] = []
  /** When each run that waits began. */
  #startedAt: number[] = []
  #listener: AgentListener | undefined
  readonly #skills: readonly Skill[]
  readonly #isLater: boolean

  /** @param isLater it answers one turn after it was called */
  constructor(tools: number, isLater: boolean) {
    this.#isLater = isLater
    const echo = (_: unknown, index: number): Skill => skillOf(`echo ${index}`)
    this.#skills = [...Array.from({ length: tools }, echo), skillOf('wait'), skillOf('brief')]
  }

  async start(listener: AgentListener): Promise<void> {
    this.#listener = listener
    listener.found(this.#agent(this.#skills))
  }

  async *run({ skillId, input, signal }: AgentCall): AsyncGenerator<AgentUpdate> {
    this.active += 1
    try {
      if (skillId === 'wait' || skillId === 'brief') {
        this.#startedAt.push(nowUs())
        await new Promise<void>((resolve) => {
          signal.addEventListener('abort', () => resolve(), { once: true })
          if (signal.aborted) resolve()
        })
        this.#stoppedAt.push(nowUs())
        throw signal.reason
      }
      if (this.#isLater) await new Promise(setImmediate)
      yield { type: 'done', text: echoOf(input.kind === 'message' ? input.text : '') }
    } finally {
      this.active -= 1
    }
  }

  /** One more tool, or one less. @returns when, by the shared clock */
  change(isMore: boolean): number {
    const at = nowUs()
    this.#listener?.found(
      this.#agent(isMore ? [...this.#skills, skillOf('one more')] : this.#skills),
    )
    return at
  }

  /** So many other agents come, one every few milliseconds. */
  async join(count: number): Promise<void> {
    for (let index = 0; index < count; index += 1) {
      const name = `joined ${index}`
      const skills: readonly Skill[] = []
      const description = 'Another agent.'
      this.#listener?.found({ id: name, name, description, skills, health: 'healthy' })
      await new Promise((resolve) => setTimeout(resolve, JOIN_MS))
    }
  }

  /** When runs began and were told to stop, since this was last asked. */
  takeTimes(): { readonly startedAt: readonly number[]; readonly stoppedAt: readonly number[] } {
    const taken = { startedAt: this.#startedAt, stoppedAt: this.#stoppedAt }
    this.#startedAt = []
    this.#stoppedAt = []
    return taken
  }

  async close(): Promise<void> {
    this.#listener = undefined
  }

  #agent(skills: readonly Skill[]): Parameters<AgentListener['found']>[0] {
    return { id: 'bench', name: 'bench', description: 'An agent.', skills, health: 'healthy' }
  }
}

function skillOf(name: string): Skill {
  return { id: name, name, description: 'Says again what it was told.' }
}
