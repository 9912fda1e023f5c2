import type { BaseChatModel } from '@langchain/core/language_models/chat_models'
import { tool } from '@langchain/core/tools'
import type { AgentDefinition } from '@x/langchain-mcp'
import { runInSessionScope, SessionPool } from '@x/mcp-client'
import type { McpServerConfig } from '@x/mcp-client'
import * as z from 'zod'
import { buildAgent } from './build-agent.ts'
import type { Agent, ClientOptions } from './build-agent.ts'

export interface BuildTeamOptions {
  /** Of both agents. */
  readonly definition: AgentDefinition
  readonly model: BaseChatModel
  readonly clients: ClientOptions
}

/**
 * An agent with a sub-agent, the clerk, to whom it can give a task. Both use the same sessions. Sessions that
 * are not kept belong to the run: the first call of either agent opens them, the end of the run ends them.
 */
export async function buildTeam({ definition, model, clients }: BuildTeamOptions): Promise<Agent> {
  await using stack = new AsyncDisposableStack()
  const pool = clients.terminateOnClose ? stack.use(new SessionPool(clients)) : undefined
  const of = pool === undefined ? clients : (server: McpServerConfig) => pool.acquire(server)
  const clerk = stack.use(await buildAgent({ definition, model, clients: of }))
  const askClerk = tool(({ task }: { task: string }) => clerk.ask(task), {
    name: 'ask_clerk',
    description: 'Gives a task to the clerk, and returns what the clerk answers.',
    schema: z.object({ task: z.string() }),
  })
  const lead = stack.use(await buildAgent({ definition, model, clients: of, tools: [askClerk] }))
  const owned = stack.move()
  return {
    ask: (text) => (pool === undefined ? lead.ask(text) : runInSessionScope(() => lead.ask(text))),
    [Symbol.asyncDispose]: () => owned.disposeAsync(),
  }
}
