import { randomUUID } from 'node:crypto'
import { Role } from '@a2a-js/sdk'
import type { Artifact, SendMessageRequest } from '@a2a-js/sdk'
import { ClientFactory } from '@a2a-js/sdk/client'
import { a2aSource } from '@x/mcp-gateway'
import { MESSAGE } from '../protocol.ts'
import type { CalledAgent } from './called-agent.ts'

/** An agent of another process, called with the client of `@a2a-js/sdk`. */
export async function calledA2a(url: string, isStreaming: boolean): Promise<CalledAgent> {
  const client = await new ClientFactory().createFromUrl(url)
  const source = a2aSource({ cards: [url], trustedOrigins: [new URL(url).origin] })
  return {
    options: { sources: [source] },
    tool: 'weather_forecast',
    answer: `It will rain at ${MESSAGE}.`,
    call: async () => {
      if (!isStreaming) {
        const task = await client.sendMessage(request())
        return 'artifacts' in task ? task.artifacts.map(textOf).join('') : ''
      }
      let text = ''
      for await (const { payload } of client.sendMessageStream(request())) {
        if (payload?.$case === 'artifactUpdate' && payload.value.artifact !== undefined) {
          text += textOf(payload.value.artifact)
        }
      }
      return text
    },
  }
}

function textOf({ parts }: Artifact): string {
  return parts.map(({ content }) => (content?.$case === 'text' ? content.value : '')).join('')
}

function request(): SendMessageRequest {
  return {
    tenant: '',
    message: {
      messageId: randomUUID(),
      contextId: '',
      taskId: '',
      role: Role.ROLE_USER,
      parts: [
        {
          content: { $case: 'text', value: MESSAGE },
          filename: '',
          mediaType: 'text/plain',
          metadata: {},
        },
      ],
      metadata: {},
      extensions: [],
      referenceTaskIds: [],
    },
    configuration: undefined,
    metadata: undefined,
  }
}
