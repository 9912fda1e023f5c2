import type { BaseChatModel } from '@langchain/core/language_models/chat_models'
import { tool } from '@langchain/core/tools'
import type { AgentDefinition } from '@x/langchain-mcp'
import { runInSessionScope, SessionPool } from '@x/mcp-client'
import type { McpClient, McpServerConfig, McpServerDirectory } from '@x/mcp-client'
import * as z from 'zod'
import { buildAgent } from './build-agent.ts'
import type { Agent } from './build-agent.ts'

export interface BuildTeamOptions {
  /** Of both agents. */
  readonly definition: AgentDefinition
  readonly directory: McpServerDirectory
  readonly model: BaseChatModel
}

/**
 * An agent with a sub-agent, the clerk, to whom it can give a task. What they do in one turn is one run:
 * they share its sessions, which end with it.
 */
export async function buildTeam({
  definition,
  directory,
  model,
}: BuildTeamOptions): Promise<Agent> {
  const pool = new SessionPool({ directory })
  const clients = (server: McpServerConfig): McpClient => pool.acquire(server)
  const clerk = await buildAgent({ definition, model, clients })
  const askClerk = tool(({ task }: { task: string }) => clerk.ask(task), {
    name: 'ask_clerk',
    description: 'Gives a task to the clerk, and returns what the clerk answers.',
    schema: z.object({ task: z.string() }),
  })
  const lead = await buildAgent({ definition, model, clients, tools: [askClerk] })
  return {
    ask: (text) => runInSessionScope(() => lead.ask(text)),
    [Symbol.asyncDispose]: () => pool.dispose(),
  }
}
