import { McpServers } from '../../../../../packages/mcp-gateway/src/protocol/servers/mcp-servers.ts'
import { observedCall } from '../../../../../packages/mcp-gateway/src/protocol/servers/observed-call.ts'
import type { ServerParts } from '../../../../../packages/mcp-gateway/src/protocol/servers/server-parts.ts'

/**
 * The servers of a gateway for clients of 2026-07-28, with one tool beside those of its agents: it needs the
 * model of its client, which no agent ever does. What becomes of a call without that capability is for the
 * legs to answer.
 */
export class ServersWithSampling extends McpServers {
  readonly #parts: ServerParts

  constructor(parts: ServerParts) {
    super(parts)
    this.#parts = parts
  }

  override create(...[era, method]: Parameters<McpServers['create']>): Server {
    return this.#withSampling(super.create(era, method))
  }

  override createForCall(): Server {
    return this.#withSampling(super.createForCall())
  }

  #withSampling(server: Server): Server {
    server.setRequestHandler('tools/call', (request, context) => {
      if (request.params.name !== 'test_missing_capability') {
        return observedCall(this.#parts, server, { request, context })
      }
      return {
        resultType: 'input_required',
        inputRequests: {
          answer: {
            method: 'sampling/createMessage',
            params: {
              messages: [{ role: 'user', content: { type: 'text', text: 'Say hello' } }],
              maxTokens: 100,
            },
          },
        },
      }
    })
    return server
  }
}

type Server = ReturnType<McpServers['create']>
