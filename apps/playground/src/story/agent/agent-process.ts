// An agent in a process of its own: does what its parent asks, until it is told to stop, or killed.
import { StaticServerDirectory } from '@x/mcp-client'
import { lineFrom, UserError } from '../../user-error.ts'
import { readAgentDefinition } from './agent-file.ts'
import type { FromAgent, ToAgent } from './agent-messages.ts'
import { buildAgent } from './build-agent.ts'
import type { Agent } from './build-agent.ts'
import { buildTeam } from './build-team.ts'
import { executionTypeFrom, sessionOptionsFor } from '../../agent/execution-type.ts'
import { OfferedAgent } from './offered-agent.ts'
import { ScriptedChatModel } from './scripted-chat-model.ts'
import { serversFrom } from './server-map.ts'

const { AGENT_FILE = '', AGENT_SERVERS = '{}', AGENT_KIND } = process.env
const { AGENT_EXECUTION_TYPE = 'runtime' } = process.env

let offered: OfferedAgent | undefined

async function replyOf(
  agent: Agent,
  message: Exclude<ToAgent, { type: 'stop' }>,
): Promise<FromAgent> {
  switch (message.type) {
    case 'ask':
      return { type: 'answer', text: await agent.ask(message.text) }
    case 'offer':
      if (agent.offer === undefined) throw new UserError('This agent cannot be offered to others')
      offered = await OfferedAgent.offer(agent.offer, message.token)
      return { type: 'offered', url: offered.url }
    case 'withdraw':
      await offered?.[Symbol.asyncDispose]()
      return { type: 'withdrawn', runs: offered?.runs ?? 0 }
  }
}

async function stop(agent: Agent): Promise<void> {
  await offered?.[Symbol.asyncDispose]()
  await agent[Symbol.asyncDispose]()
  process.disconnect() // nothing holds the process any more
}

function say(message: FromAgent): void {
  process.send?.(message)
}

try {
  const servers = serversFrom(JSON.parse(AGENT_SERVERS), 'AGENT_SERVERS')
  const type = executionTypeFrom(AGENT_EXECUTION_TYPE, 'AGENT_EXECUTION_TYPE')
  const build = AGENT_KIND === 'team' ? buildTeam : buildAgent
  const agent = await build({
    definition: await readAgentDefinition(AGENT_FILE),
    model: new ScriptedChatModel(),
    clients: { directory: new StaticServerDirectory(servers), ...sessionOptionsFor(type) },
  })
  process.on('message', (message: ToAgent) => {
    if (message.type === 'stop') void stop(agent)
    else {
      replyOf(agent, message).then(say, (error: unknown) =>
        say({ type: 'failed', message: lineFrom(error) }),
      )
    }
  })
  say({ type: 'ready' })
} catch (error) {
  say({ type: 'failed', message: lineFrom(error) })
  process.disconnect()
}
