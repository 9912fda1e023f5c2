import type { GatewayOptions } from '@x/mcp-gateway'

/** An agent that a gateway offers, and that can be called without it. */
export interface CalledAgent {
  /** Offers it, and nothing else. */
  readonly options: Pick<GatewayOptions, 'agents' | 'sources'>
  /** What its tool is called. */
  readonly tool: string
  /** What it answers to `MESSAGE`. */
  readonly answer: string
  /** Says `MESSAGE` to it, as its users do without a gateway, and resolves to the text of its answer. */
  readonly call: () => Promise<string>
}
