import { readFile } from 'node:fs/promises'
import { serve } from '@hono/node-server'
import { Hono } from 'hono'
import { createChat } from './chat.ts'
import { OrderModel } from './order-model.ts'
import { startShop } from './shop.ts'

const shop = await startShop() // in your program: the URL of your server
const { chat, close } = await createChat(shop.url, new OrderModel())

const app = new Hono()
  .get('/', async ({ html }) => html(await readFile('page.html', 'utf8')))
  .post('/chat', ({ req }) => chat(req.raw))

const server = serve({ fetch: app.fetch, port: Number(process.env['PORT'] ?? 3000) }, ({ port }) =>
  console.log(`http://localhost:${port}`),
)
process.once('SIGTERM', stop).once('SIGINT', stop)

async function stop(): Promise<void> {
  server.close()
  await close()
  await shop[Symbol.asyncDispose]()
}
