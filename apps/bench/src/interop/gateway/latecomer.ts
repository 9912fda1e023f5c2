import type { AgentListener, AgentSource } from '@x/mcp-gateway'

/** An agent, `late`, that is there once somebody let it in. */
export class Latecomer implements AgentSource {
  readonly name = 'latecomer'
  readonly isLocal = true
  #listener: AgentListener | undefined

  async start(listener: AgentListener): Promise<void> {
    this.#listener = listener
  }

  letIn(): void {
    this.#listener?.found({
      id: 'late',
      name: 'late',
      description: 'Came later',
      skills: [],
      health: 'healthy',
    })
  }

  async *run(): ReturnType<AgentSource['run']> {
    yield { type: 'done', text: 'Better late than never' }
  }

  async close(): Promise<void> {}
}
