// Runs in its own process, which ends by itself only if nothing stays open.
import { once } from 'node:events'
import { StreamableHttpTransport } from '../src/index.ts'

const [url = ''] = process.argv.slice(2)
const transport = new StreamableHttpTransport(url)
let isOpen: () => void = () => {}
const opened = new Promise<void>((resolve) => (isOpen = resolve))
let isClosed = false
let answers = 0
transport.onerror = (error) => process.stdout.write(`error ${error.message}\n`)
transport.onmessage = (message) => {
  if (isClosed) process.stdout.write('late\n')
  if (!('method' in message)) answers += 1
  if (!('method' in message) && message.id === 0) isOpen()
}
await transport.start()
const params = {
  protocolVersion: '2025-11-25',
  capabilities: { elicitation: {} },
  clientInfo: { name: 'x', version: '1' },
}
await transport.send({ jsonrpc: '2.0', id: 0, method: 'initialize', params })
await opened
await transport.send({ jsonrpc: '2.0', method: 'notifications/initialized' })
for (const [id, name] of ['hangs', 'streams', 'asks', 'polls'].entries()) {
  await transport.send({ jsonrpc: '2.0', id: id + 1, method: 'tools/call', params: { name } })
}
const uri = 'counter://value'
await transport.send({ jsonrpc: '2.0', id: 5, method: 'resources/subscribe', params: { uri } })
await once(process.stdin, 'data') // the server has received all requests
process.stdin.destroy()
await transport.close()
isClosed = true
process.stdout.write(`${answers} answers\n`)
