import { getRequestListener } from '@hono/node-server'
import { createGateway, langGraphSource } from '@x/mcp-gateway'
import express, { type Express } from 'express'

const gateway = createGateway({ sources: [langGraphSource('./langgraph.json')] })
const mcp = getRequestListener(gateway.fetch, { overrideGlobalObjects: false })

export const app: Express = express()
app.all('/mcp', mcp) // before express.json(), which would read the body first
app.use(express.json())
export {}
