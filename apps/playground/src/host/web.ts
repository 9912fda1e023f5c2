import { once } from 'node:events'
import { createServer } from 'node:http'
import { setTimeout as sleep } from 'node:timers/promises'
import { getRequestListener } from '@hono/node-server'
import { serveStatic } from '@hono/node-server/serve-static'
import { isLoopback } from '@x/internal'
import { CommandError, toLine } from '@x/internal/command-line'
import { Hono } from 'hono'
import { bodyLimit } from 'hono/body-limit'
import { secureHeaders } from 'hono/secure-headers'
import { COMMAND } from '../timeline/commands.ts'
import type { Command } from '../timeline/commands.ts'
import type { Playground } from './playground.ts'

const MAX_COMMAND_BYTES = 1_048_576
/** Events that wait for a slow page. Beyond that its stream ends, and the page opens it again. */
const MAX_WAITING_EVENTS = 5000
/** Time after which a browser opens a lost stream again. */
const RECONNECT_MS = 500
/** A command that fails within this time is answered with the error; a later failure becomes a notice. */
const ANSWER_MS = 300

/** The page shows what servers send, so it loads nothing from elsewhere. */
const CONTENT_POLICY = {
  defaultSrc: ["'self'"],
  styleSrc: ["'self'", "'unsafe-inline'"],
  imgSrc: ["'self'", 'data:'],
  mediaSrc: ["'self'", 'data:'],
  frameAncestors: ["'none'"],
}

/** The page of the playground and its API, as a function from request to response. */
export function createWeb(playground: Playground, pageFolder: string): Hono {
  const app = new Hono()

  // The host starts processes: a page of another site must reach it neither by its own host name nor by a form.
  app.use(async (context, next) => {
    const host = context.req.header('host') ?? ''
    const origin = context.req.header('origin')
    const isOwn =
      isLoopback(URL.parse(`http://${host}`)?.hostname ?? '') &&
      (origin === undefined || origin === `http://${host}`)
    if (!isOwn) return context.json({ error: 'Open the playground by its own address.' }, 403)
    await next()
    return undefined
  })
  app.use(secureHeaders({ contentSecurityPolicy: CONTENT_POLICY, strictTransportSecurity: false }))
  app.onError((error, context) => {
    const status = error instanceof CommandError ? 409 : 500
    return context.json({ error: toLine(error) }, status)
  })

  app.get('/api/events', ({ body }) =>
    body(openEvents(playground), 200, {
      'content-type': 'text/event-stream',
      'cache-control': 'no-store',
    }),
  )
  app.post('/api/commands', bodyLimit({ maxSize: MAX_COMMAND_BYTES }), async (context) => {
    const command = COMMAND.safeParse(await context.req.json().catch(() => undefined))
    if (!command.success) {
      const [issue] = command.error.issues
      const place = issue?.path.join('.') || 'the command'
      return context.json({ error: `Wrong command: ${place}: ${issue?.message ?? 'unknown'}` }, 400)
    }
    await answered(playground, command.data)
    return context.body(null, 202)
  })
  app.get('/api/exchanges/:id', (context) => {
    const details = playground.recorder.detailsOf(Number(context.req.param('id')))
    return details === undefined
      ? context.json({ error: 'This exchange is not kept any more.' }, 404)
      : context.json(details)
  })
  app.use('/*', serveStatic({ root: pageFolder }))
  return app
}

/** An address with the page, until it is disposed of. */
export interface Listening extends AsyncDisposable {
  readonly url: string
}

/**
 * Listens on 127.0.0.1.
 *
 * @throws CommandError if the port cannot be used
 */
export async function listen(app: Hono, port: number): Promise<Listening> {
  const server = createServer(getRequestListener(app.fetch))
  try {
    server.listen(port, '127.0.0.1')
    await once(server, 'listening')
  } catch (cause) {
    const code = cause instanceof Error && 'code' in cause ? cause.code : undefined
    const reason = code === 'EADDRINUSE' ? 'is in use' : `cannot be used (${String(code)})`
    throw new CommandError(
      `Port ${port} ${reason}: end the program that uses it, or choose another with --port`,
      { cause },
    )
  }
  const address = server.address()
  return {
    url: `http://127.0.0.1:${typeof address === 'object' && address !== null ? address.port : port}/`,
    async [Symbol.asyncDispose]() {
      const closed = once(server, 'close')
      server.close()
      server.closeAllConnections()
      await closed
    },
  }
}

/** Opens a stream of server-sent events: the whole state, and then each event. A page that comes back misses nothing. */
function openEvents(playground: Playground): ReadableStream<Uint8Array> {
  let stop: (() => void) | undefined
  return new ReadableStream<string>({
    start(stream) {
      stream.enqueue(
        `retry: ${RECONNECT_MS}\nevent: snapshot\ndata: ${JSON.stringify(playground.state)}\n\n`,
      )
      stop = playground.on((event) => {
        stream.enqueue(`data: ${JSON.stringify(event)}\n\n`)
        if ((stream.desiredSize ?? 0) > -MAX_WAITING_EVENTS) return
        stop?.()
        stream.close()
      })
    },
    cancel: () => stop?.(),
  }).pipeThrough(new TextEncoderStream())
}

/** Resolves when a command is done, or was not refused in `ANSWER_MS`. */
async function answered(playground: Playground, command: Command): Promise<void> {
  const done = playground.run(command)
  const outcome = await Promise.race([done, sleep(ANSWER_MS, 'late', { ref: false })])
  if (outcome !== 'late') return
  done.catch((error: unknown) => playground.notify('problem', toLine(error)))
}
