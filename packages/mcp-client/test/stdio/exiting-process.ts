// A process with a client of a server that exits only after a signal. It prints the process id of the server, and
// exits without dispose().
import { misbehaving, patientClient } from './misbehaving.ts'

const client = patientClient(misbehaving('linger'))
const { content } = await client.callTool('pid')
process.stdout.write(JSON.stringify(content), () => process.exit())
