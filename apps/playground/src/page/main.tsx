import { StrictMode } from 'react'
import { createRoot } from 'react-dom/client'
import { App } from './app.tsx'
import { HostConnection } from './host-connection.ts'

const root = document.querySelector('#root')
if (root === null) throw new Error('The page has no element with the id "root"')

const connection = new HostConnection('/api')
connection.open()

createRoot(root, {
  onUncaughtError(error) {
    console.error(error)
    root.textContent = `The page failed: ${String(error)}. Reload it; the playground itself goes on.`
  },
}).render(
  <StrictMode>
    <App connection={connection} />
  </StrictMode>,
)
