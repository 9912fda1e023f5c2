import { createGateway } from '@x/mcp-gateway'
import { a2aSource } from '@x/mcp-gateway-a2a'

const source = a2aSource({ cards: ['https://weather.example'] })
const gateway = createGateway({ sources: [source] })
process.stdout.write(`Agents come from ${source.name}\n`)

await gateway.close()
export {}
