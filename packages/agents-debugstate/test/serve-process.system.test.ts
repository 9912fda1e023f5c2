import { once } from 'node:events'
import { request } from 'node:http'
import { connect } from 'node:net'
import { temporaryFolder } from '@x/internal/testing'
import { expect, test } from 'vitest'
import { startServiceProcess } from './service-process.ts'

const PATH = '/agenthub_/design/debugstate/agent/mcpsession%3A%3Ashop'
const TOKEN = 'token-of-the-agent'
const OTHER_TOKEN = 'token-of-another-agent'

test.each(['SIGTERM', 'SIGINT'] as const)(
  'finishes a write in flight after %s, and exits with 0',
  async (signal) => {
    await using folder = await temporaryFolder()
    const args = [`--db=${folder.file('state.db')}`]
    const url = await (async (): Promise<string> => {
      await using service = await startServiceProcess(args)
      const upload = request(service.url + PATH, {
        method: 'PUT',
        headers: { 'content-length': 9, expect: '100-continue' },
      })
      upload.flushHeaders()
      await once(upload, 'continue') // it has received the head, and waits for the body
      service.child.kill(signal)
      await service.logged('"stopping"')
      await expect(fetch(service.url + PATH)).rejects.toThrow('fetch failed')
      upload.end('session-1')
      const [answer] = await once(upload, 'response')
      expect(answer.statusCode).toBe(204)
      expect(answer.headers.connection).toBe('close')
      answer.resume()
      expect(await service.ended).toBe(0)
      expect(service.log).toContain('"msg":"stopped"')
      return service.url
    })()
    expect(url).toMatch(/^http:\/\/127\.0\.0\.1:\d+$/)
    await using again = await startServiceProcess(args)
    expect(await (await fetch(again.url + PATH)).text()).toBe('session-1')
  },
)

test('exits at once after a second signal', async () => {
  await using folder = await temporaryFolder()
  await using service = await startServiceProcess([`--db=${folder.file('state.db')}`])
  const { hostname, port } = new URL(service.url)
  const socket = connect(Number(port), hostname)
  socket.write(`PUT ${PATH} HTTP/1.1\r\nHost: localhost\r\nContent-Length: 9\r\n`)
  socket.write('Expect: 100-continue\r\n\r\n')
  await once(socket, 'data')
  socket.on('error', () => {})
  service.child.kill('SIGTERM')
  await service.logged('"stopping"')
  service.child.kill('SIGTERM')
  expect(await service.ended).toBe(143)
})

test('logs each request without values, tokens and keys', async () => {
  await using folder = await temporaryFolder()
  await using service = await startServiceProcess([`--db=${folder.file('state.db')}`], {
    DEBUGSTATE_TOKEN: TOKEN,
  })
  const headers = { authorization: `Bearer ${TOKEN}` }
  await fetch(service.url + PATH, { method: 'PUT', body: 'session-1', headers })
  await fetch(`${service.url}${PATH}?query=secret`, { headers })
  await fetch(`${service.url}${PATH}`, { headers: { authorization: `Bearer ${OTHER_TOKEN}` } })
  service.child.kill('SIGTERM')
  expect(await service.ended).toBe(0)
  const { log } = service
  const lines = log
    .trim()
    .split('\n')
    .map((line) => JSON.parse(line))
  expect(lines).toMatchObject([
    { level: 'info', msg: 'listening', url: service.url },
    { msg: 'request', method: 'PUT', agentId: 'agent', status: 204, ms: expect.any(Number) },
    { msg: 'request', method: 'GET', agentId: 'agent', status: 200 },
    { msg: 'request', method: 'GET', status: 401 },
    { msg: 'asked to stop', signal: 'SIGTERM' },
    { msg: 'stopping' },
    { msg: 'stopped' },
  ])
  expect(lines[1].key).toMatch(/^sha256:[0-9a-f]{12}$/)
  expect(lines[2].key).toBe(lines[1].key)
  for (const secret of ['session-1', TOKEN, OTHER_TOKEN, 'secret', 'shop']) {
    expect(log).not.toContain(secret)
  }
})
