// Executes the n8n node of Evolution API once. It replaces what n8n does around a node: parameters,
// credentials and the HTTP helper; n8n itself is not installed.
//
// Usage: node n8n_driver.js <folder of n8n-nodes-evolution-api> < {"parameters": …, "credentials": …}
'use strict';

const fs = require('node:fs');
const Module = require('node:module');
const path = require('node:path');

class NodeError extends Error {
	constructor(node, message, options) {
		super(typeof message === 'string' ? message : message.message);
		Object.assign(this, options);
	}
}

// A peer dependency of 140 MB, of which the nodes use these two classes alone.
const load = Module._load;
Module._load = (name, ...rest) =>
	name === 'n8n-workflow'
		? { NodeApiError: NodeError, NodeOperationError: NodeError }
		: load(name, ...rest);

// As n8n's `this.helpers.request`, with `json: true`.
async function request({ method, uri, headers, body }) {
	const all = new Headers({ accept: 'application/json', ...headers });
	if (body !== undefined && !all.has('content-type')) {
		all.set('content-type', 'application/json');
	}
	const response = await fetch(uri, {
		method,
		headers: all,
		body: body === undefined ? undefined : JSON.stringify(body),
	});
	const text = await response.text();
	if (!response.ok) {
		throw new Error(`${response.status} - ${text}`);
	}
	return JSON.parse(text);
}

async function main() {
	const { parameters, credentials } = JSON.parse(fs.readFileSync(0, 'utf8'));
	const { EvolutionApi } = require(
		path.join(process.argv[2], 'dist/nodes/EvolutionApi/EvolutionApi.node.js'),
	);
	const context = {
		getNodeParameter(name, index, fallback) {
			let value = parameters;
			for (const part of name.split('.')) {
				value = value?.[part];
			}
			value ??= fallback;
			if (value === undefined) {
				throw new Error(`Could not get parameter "${name}"`);
			}
			return value;
		},
		getInputData: () => [{ json: {} }],
		getCredentials: async () => credentials,
		getNode: () => ({ name: 'Evolution API' }),
		continueOnFail: () => true,
		helpers: {
			request,
			returnJsonArray: (items) => [items].flat().map((item) => (item.json ? item : { json: item })),
		},
	};
	console.log(JSON.stringify(await new EvolutionApi().execute.call(context)));
}

main().catch((error) => {
	console.error(error);
	process.exit(1);
});
