// An agent in a process of its own: answers what its parent asks, until it is told to stop, or killed.
import { StaticServerDirectory } from '@x/mcp-client'
import { lineFrom } from '../user-error.ts'
import { readAgentDefinition } from './agent-file.ts'
import type { FromAgent, ToAgent } from './agent-messages.ts'
import { buildAgent } from './build-agent.ts'
import type { Agent } from './build-agent.ts'
import { buildTeam } from './build-team.ts'
import { executionTypeFrom, sessionOptionsFor } from './execution-type.ts'
import { ScriptedChatModel } from './scripted-chat-model.ts'
import { serversFrom } from './server-map.ts'

const { AGENT_FILE = '', AGENT_SERVERS = '{}', AGENT_EXECUTION_TYPE, AGENT_KIND } = process.env

async function stop(agent: Agent): Promise<void> {
  await agent[Symbol.asyncDispose]()
  process.disconnect() // nothing holds the process any more
}

function say(message: FromAgent): void {
  process.send?.(message)
}

try {
  const about = {
    definition: await readAgentDefinition(AGENT_FILE),
    directory: new StaticServerDirectory(serversFrom(JSON.parse(AGENT_SERVERS), 'AGENT_SERVERS')),
    model: new ScriptedChatModel(),
  }
  const sessions = sessionOptionsFor(executionTypeFrom(AGENT_EXECUTION_TYPE))
  const agent = await (AGENT_KIND === 'team'
    ? buildTeam(about)
    : buildAgent({ ...about, clients: { ...sessions, directory: about.directory } }))
  process.on('message', (message: ToAgent) => {
    if (message.type === 'ask') {
      agent.ask(message.text).then(
        (text) => say({ type: 'answer', text }),
        (error: unknown) => say({ type: 'failed', message: lineFrom(error) }),
      )
    } else {
      void stop(agent)
    }
  })
  say({ type: 'ready' })
} catch (error) {
  say({ type: 'failed', message: lineFrom(error) })
  process.disconnect()
}
