import { getRequestListener } from '@hono/node-server'
import { createGateway, langGraphSource } from '@x/mcp-gateway'
import { fastify, type FastifyInstance } from 'fastify'

const gateway = createGateway({ sources: [langGraphSource('./langgraph.json')] })
const mcp = getRequestListener(gateway.fetch, { overrideGlobalObjects: false })

export const app: FastifyInstance = fastify()
app.register(async (scope) => {
  scope.removeAllContentTypeParsers() // the gateway reads bodies by itself
  scope.addContentTypeParser('*', (_request, _body, done) => done(null))
  scope.all('/mcp', (request, reply) => {
    reply.hijack()
    return mcp(request.raw, reply.raw)
  })
})
export {}
