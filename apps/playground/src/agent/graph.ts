import { readFile } from 'node:fs/promises'
import type { BaseChatModel } from '@langchain/core/language_models/chat_models'
import { HumanMessage, ToolMessage } from '@langchain/core/messages'
import type { StructuredToolInterface, ToolRunnableConfig } from '@langchain/core/tools'
import type { BaseCheckpointSaver, BaseStore } from '@langchain/langgraph-checkpoint'
import { SessionInfoDebugStateFactory } from '@x/agents-debugstate'
import { agentDefinitionFrom, createMcpToolsFromAgent } from '@x/langchain-mcp'
import type { McpTool } from '@x/langchain-mcp'
import { mcpJsonDirectory, SessionInfoFactory } from '@x/mcp-client'
import { createAgent, tool } from 'langchain'
import type { ReactAgent } from 'langchain'
import * as z from 'zod'
import type { ExecutionType } from '../timeline/commands.ts'

/** Names the servers and their tools. */
const AGENT_JSON = new URL('../../agent.json', import.meta.url)
/** Says where the servers are. */
const MCP_JSON = new URL('../../mcp.json', import.meta.url)

/** Limit of a call, because a server may lose an answer. A question to a person stops its clock. */
const CALL_MS = 60_000

export interface TeamOptions {
  readonly model: BaseChatModel
  /** `playground`: sessions are kept for the next run, also of another process. `runtime`: they end with the run. */
  readonly executionType: ExecutionType
  /** Stores the conversations. Without it, a server cannot ask a person during a run. */
  readonly checkpointer?: BaseCheckpointSaver
  /** Stores which calls were sent, so that a new process does not send them again. */
  readonly store?: BaseStore
}

/** The agents, and their MCP clients. */
export interface Team extends AsyncDisposable {
  readonly supervisor: ReactAgent
  /** Tools of all servers. */
  readonly tools: readonly McpTool[]
}

/** Creates the team. No server is asked before one of its tools is called. */
export async function openTeam({ model, executionType, ...storage }: TeamOptions): Promise<Team> {
  const keepsSessions = executionType === 'playground'
  const sessionInfoFactory = keepsSessions
    ? new SessionInfoDebugStateFactory()
    : new SessionInfoFactory()

  const definition = agentDefinitionFrom(JSON.parse(await readFile(AGENT_JSON, 'utf8')))
  const { tools, clients } = await createMcpToolsFromAgent(definition, {
    directory: mcpJsonDirectory(MCP_JSON),
    sessionInfoFactory,
    terminateOnClose: !keepsSessions,
    timeoutMs: CALL_MS,
  })
  return {
    supervisor: createSupervisor({ model, tools, ...storage }),
    tools,
    async [Symbol.asyncDispose]() {
      await Promise.all(clients.map((client) => client.dispose()))
      if (sessionInfoFactory instanceof SessionInfoDebugStateFactory)
        await sessionInfoFactory.close()
    },
  }
}

interface SupervisorOptions extends Omit<TeamOptions, 'executionType'> {
  readonly tools: readonly McpTool[]
}

/**
 * A supervisor with two sub-agents, each of them a tool of the supervisor. All tools of a server have the same
 * client, so both sub-agents use the same session.
 */
function createSupervisor({ model, tools, ...storage }: SupervisorOptions): ReactAgent {
  const shopper = createAgent({
    name: 'shopper',
    model,
    tools: tools.filter(isOfShop),
    systemPrompt: 'You keep the basket of one customer. Use the tools of the shop.',
  })
  const assistant = createAgent({
    name: 'assistant',
    model,
    tools: tools.filter((one) => !isOfShop(one)),
    systemPrompt: 'You calculate, remember facts, and have reports written. Use your tools.',
  })
  return createAgent({
    name: 'supervisor',
    model,
    tools: [
      subAgent(shopper, 'Does one thing in the shop, such as "Add two apples to my basket".'),
      subAgent(assistant, 'Calculates, echoes, remembers facts, and has reports written.'),
    ],
    systemPrompt: 'You lead a shopper and an assistant. Give each request to the right one.',
    ...storage,
  })
}

/** A sub-agent as a tool. When one of its servers asks a person, the run of the supervisor is interrupted. */
function subAgent(agent: ReactAgent, description: string): StructuredToolInterface {
  return tool(
    async ({ request }, { toolCall }: ToolRunnableConfig) => {
      const { messages } = await agent.invoke({ messages: [new HumanMessage(request)] })
      const lastResult = messages.findLast((message) => ToolMessage.isInstance(message))
      return new ToolMessage({
        tool_call_id: toolCall?.id ?? '',
        content: messages.at(-1)?.text ?? '',
        status: lastResult?.status ?? 'success', // a sub-agent has failed if its last tool has
      })
    },
    {
      name: `ask_${agent.options.name}`,
      description,
      schema: z.object({ request: z.string().describe('The request, in one sentence') }),
    },
  )
}

function isOfShop(one: McpTool): boolean {
  return one.origin.server.slug === 'basket'
}
