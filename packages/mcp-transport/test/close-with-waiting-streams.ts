// Runs in its own process, which ends by itself only if nothing stays open.
import { createServer } from 'node:http'
import { StreamableHttpTransport } from '../src/index.ts'
import type { JsonRpcMessage } from '../src/index.ts'

const RETRY = 'retry: 300000\nid: e1\ndata:\n\n'

let streams = 0
let waiting: () => void = () => {}
const threeStreams = new Promise<void>((resolve) => (waiting = resolve))

const server = createServer((request, response) => {
  let body = ''
  request.setEncoding('utf8')
  request.on('data', (text: string) => (body += text))
  request.on('end', () => {
    const method = body === '' ? 'GET' : String(JSON.parse(body).method)
    if (method === 'initialize') {
      const serverInfo = { name: 'x', version: '1' }
      const result = { protocolVersion: '2025-11-25', capabilities: { logging: {} }, serverInfo }
      response.writeHead(200, { 'content-type': 'application/json', 'mcp-session-id': 's1' })
      response.end(JSON.stringify({ jsonrpc: '2.0', id: 0, result }))
      return
    }
    if (method.startsWith('notifications/')) {
      response.writeHead(202).end()
      return
    }
    // A stream that asks the client to reconnect in five minutes, and ends.
    response.writeHead(200, { 'content-type': 'text/event-stream' })
    response.end(RETRY, () => {
      streams += 1
      if (streams === 3) waiting()
    })
  })
})
await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
const address = server.address()
if (address === null || typeof address === 'string') throw new Error('No port')

let isClosed = false
const late = (what: string) => (): void => {
  if (isClosed) process.stdout.write(`late ${what}\n`)
}
let ended = 0
let allEnded: () => void = () => {}
const exchangesOver = new Promise<void>((resolve) => (allEnded = resolve))
const transport = new StreamableHttpTransport(`http://127.0.0.1:${address.port}/mcp`, {
  era: 'legacy',
  onExchange: () => {
    late('exchange')()
    ended += 1
    if (ended === 5) allEnded()
  },
})
transport.onerror = late('error')
transport.onclose = late('close')
const initialized = new Promise<void>((resolve) => {
  transport.onmessage = (_message: JsonRpcMessage) => {
    late('message')()
    resolve()
  }
})
await transport.start()
const params = {
  protocolVersion: '2025-11-25',
  capabilities: {},
  clientInfo: { name: 'x', version: '1' },
}
await transport.send({ jsonrpc: '2.0', id: 0, method: 'initialize', params })
await initialized
await transport.send({ jsonrpc: '2.0', method: 'notifications/initialized' })
await transport.send({ jsonrpc: '2.0', id: 1, method: 'tools/call' })
await transport.send({ jsonrpc: '2.0', id: 2, method: 'tools/call' })
await Promise.all([threeStreams, exchangesOver])
await transport.close()
isClosed = true
await new Promise((resolve) => server.close(resolve))
process.stdout.write('closed\n')
