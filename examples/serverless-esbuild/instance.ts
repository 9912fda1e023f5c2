// An instance of the function, as a platform starts it: loads the bundle, and answers one request.
const [file = '', body = ''] = process.argv.slice(2)
const { default: handler } = await import(file)
const request = new Request('https://function.example/', { method: 'POST', body })
const response: Response = await handler.fetch(request)
console.log(await response.text())
process.exit() // a platform ends the process at any time
