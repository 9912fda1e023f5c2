import { Readable } from 'node:stream'
import { expect, test } from 'vitest'
import { deferred } from './deferred.ts'
import { handlerDispatcher } from './handler-dispatcher.ts'

const to = { origin: 'http://server.test', path: '/mcp?a=1' }

test('passes the request to the handler, and returns its answer', async () => {
  const dispatcher = handlerDispatcher(async (request) => {
    const url = new URL(request.url)
    const seen = [request.method, url.pathname + url.search, request.headers.get('x-a')]
    return Response.json([...seen, await request.text()], { status: 201, headers: { 'x-b': 'b' } })
  })
  const answer = await dispatcher.request({
    ...to,
    method: 'POST',
    headers: { 'X-A': 'a' },
    body: 'text',
  })
  expect(answer.statusCode).toBe(201)
  expect(answer.headers).toMatchObject({ 'x-b': 'b', 'content-type': 'application/json' })
  await expect(answer.body.json()).resolves.toEqual(['POST', '/mcp?a=1', 'a', 'text'])
})

test('accepts a streamed request body, and headers as a list', async () => {
  const dispatcher = handlerDispatcher(async (request) => {
    return new Response(`${request.headers.get('x-a')} ${await request.text()}`)
  })
  const answer = await dispatcher.request({
    ...to,
    method: 'POST',
    headers: ['x-a', '1', 'x-a', '2'],
    body: Readable.from(['a', 'b']),
  })
  await expect(answer.body.text()).resolves.toBe('1, 2 ab')
})

test('delivers events while the stream is open', async () => {
  const { readable, writable } = new TransformStream<string, string>()
  const writer = writable.getWriter()
  const dispatcher = handlerDispatcher(() => {
    const headers = { 'content-type': 'text/event-stream' }
    return new Response(readable.pipeThrough(new TextEncoderStream()), { headers })
  })
  const { body } = await dispatcher.request({ ...to, method: 'GET' })
  const events = body.setEncoding('utf8')[Symbol.asyncIterator]()
  await writer.write('data: 1\n\n')
  await expect(events.next()).resolves.toMatchObject({ value: 'data: 1\n\n' })
  await writer.write('data: 2\n\n')
  await expect(events.next()).resolves.toMatchObject({ value: 'data: 2\n\n' })
  await writer.close()
  await expect(events.next()).resolves.toMatchObject({ done: true })
})

test('reports an abort before the answer to handler and caller', async () => {
  const arrived = deferred<AbortSignal>()
  const dispatcher = handlerDispatcher((request) => {
    arrived.resolve(request.signal)
    return new Promise<Response>(() => {})
  })
  const abort = new AbortController()
  const answer = dispatcher.request({ ...to, method: 'GET', signal: abort.signal })
  const signal = await arrived.promise
  abort.abort(new Error('enough'))
  await expect(answer).rejects.toThrow('enough')
  expect(signal.aborted).toBe(true)
})

test('cancels the body after an abort', async () => {
  const cancelled = deferred<unknown>()
  const stream = new ReadableStream<Uint8Array>({
    start: (controller) => controller.enqueue(new TextEncoder().encode('first')),
    cancel: (reason) => cancelled.resolve(reason),
  })
  const dispatcher = handlerDispatcher(() => new Response(stream))
  const heard: string[] = []
  const error = await new Promise<Error>((resolve) => {
    dispatcher.dispatch(
      { ...to, method: 'GET' },
      {
        onRequestStart: () => heard.push('start'),
        onResponseStart: (_controller, status) => heard.push(String(status)),
        onResponseData: (controller, chunk) => {
          heard.push(chunk.toString())
          controller.abort(new Error('enough'))
          controller.abort(new Error('twice'))
        },
        onResponseEnd: () => heard.push('end'),
        onResponseError: (_controller, reason) => resolve(reason),
      },
    )
  })
  expect(error.message).toBe('enough')
  expect(heard).toEqual(['start', '200', 'first'])
  await expect(cancelled.promise).resolves.toBe(error)
})

test('delivers nothing of a paused exchange until it is resumed', async () => {
  const dispatcher = handlerDispatcher(() => new Response('body'))
  const heard: string[] = []
  const ended = deferred()
  const paused = deferred<() => void>()
  dispatcher.dispatch(
    { ...to, method: 'GET' },
    {
      onResponseStart: (controller) => {
        controller.pause()
        paused.resolve(() => controller.resume())
      },
      onResponseData: (_controller, chunk) => heard.push(chunk.toString()),
      onResponseEnd: () => ended.resolve(),
    },
  )
  const resume = await paused.promise
  await new Promise((resolve) => setImmediate(resolve))
  expect(heard).toEqual([])
  resume()
  await ended.promise
  expect(heard).toEqual(['body'])
})

test('fails the exchange as a broken connection if the handler throws', async () => {
  const dispatcher = handlerDispatcher(() => {
    throw new Error('no route')
  })
  await expect(dispatcher.request({ ...to, method: 'GET' })).rejects.toThrow('no route')
})

test('fails the exchange if the body fails', async () => {
  const dispatcher = handlerDispatcher(
    () => new Response(new ReadableStream({ pull: (it) => it.error(new Error('cut')) })),
  )
  const { body } = await dispatcher.request({ ...to, method: 'GET' })
  await expect(body.text()).rejects.toThrow('cut')
})

test('waits for open exchanges in close(), ends them in destroy(), and accepts no others', async () => {
  const release = deferred<Response>()
  const dispatcher = handlerDispatcher(() => release.promise)
  const answer = dispatcher.request({ ...to, method: 'GET' })
  const closed = dispatcher.close()
  await expect(dispatcher.request({ ...to, method: 'GET' })).rejects.toMatchObject({
    code: 'UND_ERR_CLOSED',
  })
  release.resolve(new Response('late'))
  await expect((await answer).body.text()).resolves.toBe('late')
  await closed

  const other = handlerDispatcher(() => new Promise<Response>(() => {}))
  const lost = other.request({ ...to, method: 'GET' })
  lost.catch(() => {})
  await other.destroy()
  await expect(lost).rejects.toMatchObject({ code: 'UND_ERR_DESTROYED' })
})
