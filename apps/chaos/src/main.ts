// The command `pnpm chaos`.
process.stderr.write('pnpm chaos is not built yet\n')
process.exitCode = 1
