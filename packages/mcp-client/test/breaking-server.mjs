// A server that breaks its connections on command, and knows which calls have come whole.
import { createServer } from 'node:http'

const sockets = new Set()
const received = []
let port = 0

const server = createServer((request, response) => {
  let text = ''
  const ignore = () => {}
  request.on('error', ignore).on('data', (chunk) => (text += chunk))
  response.on('error', ignore)
  request.on('end', () => {
    const answer = (status, result, id) => {
      const body = id === undefined ? '' : JSON.stringify({ jsonrpc: '2.0', id, result })
      if (response.destroyed) return
      response.writeHead(status, { 'content-type': 'application/json' }).end(body)
    }
    if (request.method !== 'POST') return answer(405)
    const { id, method, params } = JSON.parse(text)
    if (id === undefined) return answer(202)
    if (method === 'initialize') {
      const { protocolVersion } = params
      const serverInfo = { name: 'breaking', version: '1' }
      return answer(200, { protocolVersion, capabilities: { tools: {} }, serverInfo }, id)
    }
    if (method !== 'tools/call') return answer(200, {}, id)
    received.push(params.arguments.n)
    setTimeout(() => answer(200, { content: [] }, id), params.arguments.ms)
  })
})

server.on('connection', (socket) => {
  sockets.add(socket)
  socket.on('error', () => {}).on('close', () => sockets.delete(socket))
})
server.listen(0, '127.0.0.1', () => {
  ;({ port } = server.address())
  process.send({ port })
})

process.on('message', ({ what, downMs, share }) => {
  if (what === 'received') process.send({ received })
  if (what === 'close')
    for (const socket of [...sockets].slice(share * sockets.size)) socket.destroy()
  if (what !== 'crash' || !server.listening) return
  for (const socket of sockets) socket.resetAndDestroy()
  server.close()
  setTimeout(() => server.listen(port, '127.0.0.1'), downMs)
})
